/* The inner loops of a recall that array operations cannot do in few passes. Plain C11 without Python: loaded by
 * helix/native/__init__.py, which says what each takes. Sums are taken in a stated order, so that the same input gives
 * the same bits on every machine; products are not contracted into sums (see hatch_build.py).
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

#define LANES 16 /* partial sums of an inner product, whatever the processor's own width */

static inline float sum_of(const float *lane) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += lane[i];
    return total;
}

/* ------------------------------------------------------------------ BM25 */

static void sift_down(float *heap, int64_t k) {
    float value = heap[0];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= k) break;
        if (child + 1 < k && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= value) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

static void sift_up(float *heap, int64_t at) {
    float value = heap[at];
    while (at) {
        int64_t parent = (at - 1) / 2;
        if (heap[parent] <= value) break;
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = value;
}

/* Add what one term gives to the rows that hold it. Rows that cannot come among the k best any more are left as they
 * are: the k-th best has `floor` at least, the terms ahead give `rest` at most.
 *
 * heap[k] and *held: the k best of this term so far, smallest first; begin with *held = 0.
 * touched: rows whose score was 0 are appended, at most n. Returns how many, or -1 where a row is none of all rows, of
 * which there are `all`; *floor_out is the raised floor.
 */
int64_t add_postings(const uint32_t *rows, const uint16_t *tf, int64_t n, int64_t start, const uint8_t *allowed,
                     const float *norm, float weight, float *scores, int64_t all, float rest, float slack, float *heap,
                     int64_t k, int64_t *held, float *floor_out, int64_t *touched) {
    int64_t new_rows = 0, size = *held;
    float floor = *floor_out, cut = floor > rest ? floor - rest : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = start + rows[i];
        if (row >= all) return -1;
        if (allowed && !allowed[row]) continue;
        float count = tf[i], before = scores[row];
        float after = before + count / (norm[row] + count) * weight;
        if (after < cut) continue;
        scores[row] = after;
        if (before == 0) touched[new_rows++] = row;
        if (after <= floor) continue;
        if (size < k) {
            heap[size] = after;
            sift_up(heap, size++);
        } else if (after > heap[0]) {
            heap[0] = after;
            sift_down(heap, k);
        } else {
            continue;
        }
        if (size == k && slack * heap[0] > floor) {
            floor = slack * heap[0];
            cut = floor > rest ? floor - rest : 0;
        }
    }
    *held = size;
    *floor_out = floor;
    return new_rows;
}

/* ------------------------------------------------------------------ vectors */

/* out[i] = scale[i] · ⟨codes at address[i], query⟩ */
WIDE void inner_products(const uint64_t *address, const float *scale, int64_t n, int64_t d, const float *query,
                         float *out) {
    for (int64_t i = 0; i < n; i++) {
        const int8_t *code = (const int8_t *)(uintptr_t)address[i];
        float lane[LANES] = {0};
        int64_t j = 0;
        for (; j + LANES <= d; j += LANES)
            for (int l = 0; l < LANES; l++) lane[l] += (float)code[j + l] * query[j + l];
        for (; j < d; j++) lane[j % LANES] += (float)code[j] * query[j];
        out[i] = sum_of(lane) * scale[i];
    }
}

#define LEAN(l)                                                                                        \
    do {                                                                                               \
        float v = factor[1] * (float)code[1][j + l];                                                   \
        float sum = v + share * (factor[0] * (float)code[0][j + l] + factor[2] * (float)code[2][j + l]); \
        own[l] += v * query[j + l];                                                                    \
        product[l] += sum * query[j + l];                                                              \
        square[l] += sum * sum;                                                                        \
    } while (0)

/* alone[i] = ⟨v, query⟩, leaning[i] = ⟨v + share · (b + a), query⟩ / ‖v + share · (b + a)‖, where v, b and a are the
 * vectors of an item and of its two neighbours; an address 0 is the zero vector. address, scale: [3][n], in the order
 * before, item, after.
 */
WIDE void leaning_products(const uint64_t *address, const float *scale, int64_t n, int64_t d, const float *query,
                           float share, const int8_t *nothing, float *alone, float *leaning) {
    for (int64_t i = 0; i < n; i++) {
        const int8_t *code[3];
        float factor[3];
        for (int part = 0; part < 3; part++) {
            uint64_t at = address[part * n + i];
            code[part] = at ? (const int8_t *)(uintptr_t)at : nothing;
            factor[part] = at ? scale[part * n + i] : 0;
        }
        float own[LANES] = {0}, product[LANES] = {0}, square[LANES] = {0};
        int64_t j = 0;
        for (; j + LANES <= d; j += LANES)
            for (int l = 0; l < LANES; l++) LEAN(l);
        for (int l = 0; j + l < d; l++) LEAN(l);
        float length = sqrtf(sum_of(square));
        alone[i] = sum_of(own);
        leaning[i] = sum_of(product) / (length > 1e-9f ? length : 1e-9f);
    }
}

/* ------------------------------------------------------------------ filters */

/* out[i] = alive[i] and low <= value[i] <= high; returns how many are. */
WIDE int64_t between(const int64_t *value, const uint8_t *alive, int64_t n, int64_t low, int64_t high, uint8_t *out) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t passes = (uint8_t)(alive[i] & (value[i] >= low) & (value[i] <= high));
        out[i] = passes;
        count += passes;
    }
    return count;
}

/* ------------------------------------------------------------------ words */

/* Where any of t terms (ascending, at most 65,535) stand in the lists of some rows: the list of row r is
 * said[indptr[r]] to said[indptr[r + 1]]. Writes (position in rows, position in terms, place in all lists read) for
 * each, at most `most`, and returns how many; -1 where a list is not within the w entries there are, or there are more.
 */
int64_t occurrences(const int64_t *indptr, const uint32_t *said, int64_t w, int64_t most, const int64_t *rows, int64_t n, const uint32_t *terms,
                    int64_t t, int64_t *at, int64_t *term, int64_t *place) {
    uint8_t maybe[256] = {0}; /* by the lowest bits of a term: most words are none that is asked for */
    int64_t found = 0, read = 0;
    for (int64_t i = 0; i < t; i++) maybe[terms[i] & 255] = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t start = indptr[rows[i]], length = indptr[rows[i] + 1] - start;
        if (start < 0 || length < 0 || start + length > w || found + length > most) return -1;
        const uint32_t *list = said + start;
        for (int64_t j = 0; j < length; j++) {
            if (!maybe[list[j] & 255]) continue;
            for (int64_t k = 0; k < t; k++) {
                if (terms[k] != list[j]) continue;
                at[found] = i;
                term[found] = k;
                place[found++] = read + j;
                break;
            }
        }
        read += length;
    }
    return found;
}
