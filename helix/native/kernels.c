/* The inner loops of a recall that array operations cannot do in few passes. Plain C11 without Python: loaded by
 * helix/native/__init__.py, which says what each takes. Sums are taken in a stated order, so that the same input gives
 * the same bits on every machine; products are not contracted into sums (see hatch_build.py).
 *
 * Lengths and dtypes are checked before a kernel is called (helix/native/checked.py). What an array holds may come from
 * a damaged file: a number that says where to read or write is compared with what there is, here, before it is used.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define LANES 16 /* partial sums of an inner product, whatever the processor's own width */

static inline float sum_of(const float *lane) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += lane[i];
    return total;
}

/* Counted up with every change of what a kernel takes; as in helix/native/__init__.py. */
int64_t kernels_version(void) { return 2; }

/* Whether some of n rows is none of `all`. */
static int outside(const int64_t *row, int64_t n, int64_t all) {
    int found = 0;
    for (int64_t i = 0; i < n; i++) found |= (uint64_t)row[i] >= (uint64_t)all;
    return found;
}

/* ------------------------------------------------------------------ vectors */

#define STRIDE 64 /* codes that are made floats at a time */
#define SOON 8    /* rows ahead whose codes are asked for */
typedef float eight __attribute__((vector_size(32)));

/* out[i] = scale[r] · ⟨codes[r], query⟩, r = row[i], of codes[all][d]. Returns -1 where a row is none of `all`, else 0.
 * (Floats are made in a loop of their own, since compilers make that a few instructions and take the whole apart.)
 */
WIDE int64_t inner_products(const int8_t *codes, const float *scale, int64_t all, int64_t d, const int64_t *row,
                            int64_t n, const float *query, float *out) {
    if (outside(row, n, all)) return -1;
    for (int64_t i = 0; i < n; i++) {
        const int8_t *code = codes + row[i] * d;
        for (int64_t j = 0; j < d && i + SOON < n; j += 64) PREFETCH(codes + row[i + SOON] * d + j);
        eight lower = {0}, upper = {0};
        int64_t j = 0;
        for (; j + STRIDE <= d; j += STRIDE) {
            float value[STRIDE];
            for (int l = 0; l < STRIDE; l++) value[l] = (float)code[j + l];
            for (int l = 0; l < STRIDE; l += LANES) {
                eight v[2], q[2];
                memcpy(v, value + l, sizeof v);
                memcpy(q, query + j + l, sizeof q);
                lower += v[0] * q[0];
                upper += v[1] * q[1];
            }
        }
        float lane[LANES];
        memcpy(lane, &lower, sizeof lower);
        memcpy(lane + 8, &upper, sizeof upper);
        for (; j < d; j++) lane[j % LANES] += (float)code[j] * query[j];
        out[i] = sum_of(lane) * scale[row[i]];
    }
    return 0;
}

#define LEAN(l)                                                                                        \
    do {                                                                                               \
        float v = factor[1] * (float)code[1][j + l];                                                   \
        float sum = v + share * (factor[0] * (float)code[0][j + l] + factor[2] * (float)code[2][j + l]); \
        own[l] += v * query[j + l];                                                                    \
        product[l] += sum * query[j + l];                                                              \
        square[l] += sum * sum;                                                                        \
    } while (0)

/* The part that holds a row, by where each begins. */
static int64_t part_of(const int64_t *start, int64_t parts, int64_t row) {
    int64_t low = 0, high = parts;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (start[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* alone[i] = ⟨v, query⟩, leaning[i] = ⟨v + share · (b + a), query⟩ / ‖v + share · (b + a)‖, where v, b and a are the
 * vectors of an item and of its two neighbours; row: [3][n], in the order before, item, after, -1 for the zero vector.
 * Part p, at codes_at[p] and scale_at[p], holds the rows start[p] to start[p + 1]; nothing: d zeros; code and factor:
 * room for [3][n]. Returns -1 where a row is in none of the parts, else 0.
 */
WIDE int64_t leaning_products(const uint64_t *codes_at, const uint64_t *scale_at, const int64_t *start, int64_t parts,
                              int64_t d, const int64_t *row, int64_t n, const float *query, float share,
                              const int8_t *nothing, const int8_t **code_of, float *factor_of, float *alone,
                              float *leaning) {
    for (int64_t i = 0; i < 3 * n; i++) {
        code_of[i] = nothing;
        factor_of[i] = 0;
        if (row[i] == -1) continue;
        if (row[i] < 0 || row[i] >= start[parts]) return -1;
        int64_t part = part_of(start, parts, row[i]), local = row[i] - start[part];
        code_of[i] = (const int8_t *)(uintptr_t)codes_at[part] + local * d;
        factor_of[i] = ((const float *)(uintptr_t)scale_at[part])[local];
        for (int64_t j = 0; j < d; j += 64) PREFETCH(code_of[i] + j); /* the memory is asked for all codes at once */
    }
    for (int64_t i = 0; i < n; i++) {
        const int8_t *code[3] = {code_of[i], code_of[n + i], code_of[2 * n + i]};
        float factor[3] = {factor_of[i], factor_of[n + i], factor_of[2 * n + i]};
        float own[LANES] = {0}, product[LANES] = {0}, square[LANES] = {0};
        int64_t j = 0;
        for (; j + LANES <= d; j += LANES)
            for (int l = 0; l < LANES; l++) LEAN(l);
        for (int l = 0; j + l < d; l++) LEAN(l);
        float length = sqrtf(sum_of(square));
        alone[i] = sum_of(own);
        leaning[i] = sum_of(product) / (length > 1e-9f ? length : 1e-9f);
    }
    return 0;
}

/* ------------------------------------------------------------------ filters */

#define AHEAD 8 /* zones whose values are asked for before they are read */
#define STRADDLES(z) (least[z] < from || most[z] > to)

/* passed[i] = among[i] and low <= value[i] <= high, of rows i; returns how many pass. Zone z is the rows begin[z] to
 * begin[z + 1], UINT8_MAX at most, whose values are least[z] to most[z]: where all of a zone pass, or none, they are not
 * read. among: NULL where all may pass; some: room for all zones. Returns -1 where a zone that is looked into is not
 * within the n rows.
 */
#define BETWEEN(NAME, TYPE, LEAST, MOST)                                                                               \
    WIDE int64_t NAME(const TYPE *value, const int32_t *begin, const TYPE *least, const TYPE *most, int64_t zones,     \
                      int64_t n, int64_t low, int64_t high, const uint8_t *among, uint8_t *passed, int32_t *some) {    \
        TYPE from = (TYPE)(low < LEAST ? LEAST : low), to = (TYPE)(high > MOST ? MOST : high);                         \
        int64_t count = 0, found = 0;                                                                                  \
        memset(passed, 0, (size_t)n);                                                                                  \
        if (low > MOST || high < LEAST) return 0;                                                                      \
        for (int64_t zone = 0; zone < zones; zone++) {                                                                 \
            some[found] = (int32_t)zone;                                                                               \
            found += (most[zone] >= from) & (least[zone] <= to);                                                       \
        }                                                                                                              \
        for (int64_t i = 0; i < found; i++)                                                                            \
            if (begin[some[i]] < 0 || begin[some[i]] > begin[some[i] + 1] || begin[some[i] + 1] > n) return -1;        \
        for (int64_t i = 0; i < found; i++) {                                                                          \
            if (i + AHEAD < found) {                                                                                   \
                int64_t zone = some[i + AHEAD];                                                                        \
                if (among) PREFETCH(among + begin[zone]);                                                              \
                for (int64_t at = begin[zone]; STRADDLES(zone) && at < begin[zone + 1]; at += 64 / sizeof(TYPE))       \
                    PREFETCH(value + at);                                                                              \
            }                                                                                                          \
            int64_t zone = some[i], end = begin[zone + 1];                                                             \
            uint8_t here = 0;                                                                                          \
            if (STRADDLES(zone))                                                                                       \
                for (int64_t at = begin[zone]; at < end; at++)                                                         \
                    here += passed[at] = (uint8_t)((!among || among[at]) & (value[at] >= from) & (value[at] <= to));   \
            else                                                                                                       \
                for (int64_t at = begin[zone]; at < end; at++) here += passed[at] = !among || among[at];               \
            count += here;                                                                                             \
        }                                                                                                              \
        return count;                                                                                                  \
    }

BETWEEN(between_int64, int64_t, INT64_MIN, INT64_MAX)
BETWEEN(between_int32, int32_t, INT32_MIN, INT32_MAX)
BETWEEN(between_uint8, uint8_t, 0, UINT8_MAX)

/* ------------------------------------------------------------------ fusion */

struct fused {
    uint64_t key;
    float score;
    uint32_t row;
    int64_t at; /* in the order in which rows come first */
};

_Static_assert(sizeof(struct fused) == 3 * sizeof(uint64_t), "what Python makes room for");

static int before(const void *left, const void *right) {
    const struct fused *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Reciprocal rank fusion: the different rows of some legs, the highest sum of weight / (k + rank) first, of equal ones
 * (as floats) that with the least key. Leg l is rows[end[l - 1]] to rows[end[l]], best first, ranks from 1; key has an
 * entry for each of `all` rows. Room: table [slots + m], slots a power of two above the m rows there are; work [4][m].
 * Writes row, score and rank[legs][m], NaN where a leg has it not; returns how many, or -1 where a row is none of `all`.
 */
int64_t fuse_legs(const uint32_t *rows, const int64_t *end, int64_t legs, const double *weight, double k,
                  const uint64_t *key, int64_t all, int32_t *table, int64_t slots, uint64_t *work, uint32_t *row,
                  float *score, float *rank) {
    int64_t found = 0, m = legs ? end[legs - 1] : 0;
    int32_t *slot = table + slots;
    double *sum = (double *)work;
    struct fused *entry = (struct fused *)(work + m);
    memset(table, -1, (size_t)slots * sizeof *table);
    for (int64_t i = 0; i < m; i++) { /* the memory is asked for all keys at once */
        if (rows[i] >= all) return -1;
        PREFETCH(key + rows[i]);
    }
    for (int64_t l = 0, i = 0; l < legs; l++)
        for (int64_t first = i; i < end[l]; i++) {
            int64_t at = (int64_t)(((uint64_t)rows[i] + 1) * 0x9E3779B97F4A7C15u >> 32) & (slots - 1);
            while (table[at] >= 0 && entry[table[at]].row != rows[i]) at = (at + 1) & (slots - 1);
            if (table[at] < 0) {
                entry[found].row = rows[i];
                entry[found].at = found;
                sum[found] = 0;
                table[at] = (int32_t)found++;
            }
            slot[i] = table[at];
            sum[table[at]] += weight[l] / (k + (double)(i - first + 1));
        }
    for (int64_t i = 0; i < found; i++) {
        entry[i].score = (float)sum[i];
        entry[i].key = key[entry[i].row];
    }
    qsort(entry, (size_t)found, sizeof *entry, before);
    for (int64_t i = 0; i < found; i++) {
        row[i] = entry[i].row;
        score[i] = entry[i].score;
        table[entry[i].at] = (int32_t)i; /* from here on: where each came to stand */
    }
    for (int64_t i = 0; i < legs * m; i++) rank[i] = NAN;
    for (int64_t l = 0, i = 0; l < legs; l++)
        for (int64_t first = i; i < end[l]; i++) rank[l * m + table[slot[i]]] = (float)(i - first + 1);
    return found;
}

/* ------------------------------------------------------------------ ranking */

/* How often any of t terms stands in the lists of n rows, and how often two of them stand one behind the other: the
 * list of row r is said[indptr[r]] to said[indptr[r + 1]]. Term k is counted in count[of[k]][n]; of the p pairs, pair
 * q, a term of left[q] and then one of right[q], is counted in follows[q][n]. Both begin with zeros; count has `places`
 * rows. Returns -1 where a row has no list, or one that is not within the w entries there are, -2 where a term is
 * counted in no row there is, else 0.
 */
int64_t count_terms(const int64_t *indptr, int64_t lists, const uint32_t *said, int64_t w, const int64_t *rows,
                    int64_t n, const uint32_t *terms, const int64_t *of, int64_t t, const int64_t *left,
                    const int64_t *right, int64_t p, int64_t places, float *count, float *follows) {
    if (outside(of, t, places)) return -2;
    int32_t first[1024] = {0}; /* 1 + the first term of these lowest bits: most words are none that is asked for */
    for (int64_t k = t - 1; k >= 0; k--) first[terms[k] & 1023] = (int32_t)k + 1;
    for (int64_t i = 0; i < n; i++) { /* of all lists at first, so that the memory is asked for them at once */
        if (rows[i] < 0 || rows[i] >= lists) return -1;
        int64_t start = indptr[rows[i]], end = indptr[rows[i] + 1];
        if (start < 0 || end < start || end > w) return -1;
        for (int64_t j = start; j < end; j += 16) PREFETCH(said + j);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t start = indptr[rows[i]], end = indptr[rows[i] + 1], before = -1, last = -2;
        for (int64_t j = start; j < end; j++) {
            int64_t k = first[said[j] & 1023];
            if (!k--) continue;
            while (k < t && terms[k] != said[j]) k++;
            if (k == t) continue;
            count[of[k] * n + i]++;
            if (last == j - 1)
                for (int64_t q = 0; q < p; q++)
                    if (left[q] == before && right[q] == of[k]) follows[q * n + i]++;
            before = of[k];
            last = j;
        }
    }
    return 0;
}

/* BM25 of n texts, each made of `width` rows of u: out[i] = sum over t terms k, in order, of weight[k] * tf * gain /
 * (tf + k1 * (bare + longer * l)), where tf and l are the sums of count[k][j] and length[j] over the places j in
 * place[0][i] to place[width - 1][i]; count is [t][u], place [width][n]. Returns -1 where a place is none of u, else 0.
 */
int64_t pooled(const float *count, int64_t t, int64_t u, const int64_t *place, int64_t width, int64_t n,
               const float *weight, const float *length, float gain, float k1, float bare, float longer, float *out) {
    if (outside(place, width * n, u)) return -1;
    for (int64_t i = 0; i < n; i++) {
        float l = 0, sum = 0;
        for (int64_t j = 0; j < width; j++) l += length[place[j * n + i]];
        float norm = k1 * (bare + longer * l);
        for (int64_t k = 0; k < t; k++) {
            float tf = 0;
            for (int64_t j = 0; j < width; j++) tf += count[k * u + place[j * n + i]];
            float base = tf + norm;
            sum += weight[k] * (tf * gain / (base > 1e-9f ? base : 1e-9f));
        }
        out[i] = sum;
    }
    return 0;
}

/* Runs of up to `longest` terms of one text that may be wanted: those for which bit key & mask of `wanted` is set, the key
 * being the sum of (term + 1) * power[place in the run]. Writes (key, first term, terms) of each, at most n * longest,
 * and returns how many.
 */
int64_t wanted_runs(const int64_t *text, const uint32_t *terms, int64_t n, const uint64_t *power, int64_t longest,
                    const uint8_t *wanted, uint64_t mask, uint64_t *key_out, int64_t *start, int64_t *size) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = 0;
        for (int64_t j = 0; j < longest && i + j < n && text[i + j] == text[i]; j++) {
            key += ((uint64_t)terms[i + j] + 1) * power[j];
            if (!(wanted[(key & mask) >> 3] >> (key & 7) & 1)) continue;
            key_out[found] = key;
            start[found] = i;
            size[found++] = j + 1;
        }
    }
    return found;
}

/* ring[5][n]: of each of n rows the two before it, the one before, itself, the one after and the two after; -1 beyond
 * either end. Returns -1 where a row, or what stands beside one, is none of `all`, else 0.
 */
int64_t around(const int32_t *previous, const int32_t *next, int64_t all, const int64_t *rows, int64_t n,
               int64_t *ring) {
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] < 0 || rows[i] >= all) return -1;
        int64_t before = previous[rows[i]], after = next[rows[i]];
        if (before >= all || after >= all) return -1;
        ring[i] = before < 0 ? -1 : previous[before];
        ring[n + i] = before;
        ring[2 * n + i] = rows[i];
        ring[3 * n + i] = after;
        ring[4 * n + i] = after < 0 ? -1 : next[after];
    }
    return 0;
}

/* The different values, in the order in which they come first, and the place there of each. table: room for slots, a
 * power of two above n. Returns how many there are.
 */
int64_t distinct(const int64_t *values, int64_t n, int64_t *table, int64_t slots, int64_t *out, int64_t *place) {
    int64_t found = 0;
    memset(table, -1, (size_t)slots * sizeof *table);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (int64_t)((uint64_t)values[i] * 0x9E3779B97F4A7C15u >> 32) & (slots - 1);
        while (table[at] >= 0 && out[table[at]] != values[i]) at = (at + 1) & (slots - 1);
        if (table[at] < 0) {
            out[found] = values[i];
            table[at] = found++;
        }
        place[i] = table[at];
    }
    return found;
}
