/* Inner products of int8 vectors with a question. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "machine.h"

#define LANES 16 /* partial sums of an inner product, on every processor */

static inline float sum_lanes(const float *lane) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += lane[i];
    return total;
}

#define SOON 8 /* rows to prefetch ahead */
typedef float eight __attribute__((vector_size(32)));
typedef float unaligned __attribute__((vector_size(32), aligned(4), may_alias));

/* Eight floats of memory. A copy to an array of vectors is stored in smaller pieces than it is loaded in, and waits. */
#define LOAD(at) ((eight) * (const unaligned *)(at))

/* The body of score_vectors, with WIDEN(code, v): the floats of LANES codes. */
#define SCORE_VECTORS(WIDEN)                                                                                  \
    do {                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                     \
            const int8_t *code = codes + row[i] * d;                                                          \
            for (int64_t j = 0; j < d && i + SOON < n; j += 64) PREFETCH(codes + row[i + SOON] * d + j);      \
            eight lower = {0}, upper = {0};                                                                   \
            int64_t j = 0;                                                                                    \
            for (; j + LANES <= d; j += LANES) {                                                              \
                eight v[2];                                                                                   \
                WIDEN(code + j, v);                                                                           \
                lower += v[0] * LOAD(query + j);                                                              \
                upper += v[1] * LOAD(query + j + 8);                                                          \
            }                                                                                                 \
            float lane[LANES];                                                                                \
            memcpy(lane, &lower, sizeof lower);                                                               \
            memcpy(lane + 8, &upper, sizeof upper);                                                           \
            for (; j < d; j++) lane[j % LANES] += (float)code[j] * query[j];                                  \
            out[i] = sum_lanes(lane) * scale[row[i]];                                                         \
        }                                                                                                     \
    } while (0)

#define WIDEN_EACH(code, v)                                             \
    do {                                                                \
        float value[LANES];                                             \
        for (int l = 0; l < LANES; l++) value[l] = (float)(code)[l];    \
        (v)[0] = LOAD(value);                                           \
        (v)[1] = LOAD(value + 8);                                       \
    } while (0)

static void score_vectors_plainly(const int8_t *codes, const float *scale, int64_t d, const int64_t *row, int64_t n,
                                  const float *query, float *out) {
    SCORE_VECTORS(WIDEN_EACH);
}

#ifdef HAS_AVX2
#define WIDEN_BY_AVX2(code, v)                                                         \
    do {                                                                               \
        __m128i c = _mm_loadu_si128((const __m128i *)(code));                          \
        (v)[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c));                          \
        (v)[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(c, 8)));       \
    } while (0)

/* Compilers do not find these instructions themselves: GCC 12 converts code by code, at a fifteenth of the speed. */
__attribute__((target("avx2"))) static void score_vectors_by_avx2(const int8_t *codes, const float *scale, int64_t d,
                                                                  const int64_t *row, int64_t n, const float *query,
                                                                  float *out) {
    SCORE_VECTORS(WIDEN_BY_AVX2);
}
#endif

/* out[i] = scale[r] · ⟨codes[r], query⟩, r = row[i], of codes[all][d]. Returns -1 for a row outside `all`, else 0. */
int64_t score_vectors(const int8_t *codes, const float *scale, int64_t all, int64_t d, const int64_t *row, int64_t n,
                      const float *query, float *out) {
    if (any_outside(row, n, all)) return -1;
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        score_vectors_by_avx2(codes, scale, d, row, n, query, out);
        return 0;
    }
#endif
    score_vectors_plainly(codes, scale, d, row, n, query, out);
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

/* The part that holds a row. */
static int64_t find_part(const int64_t *start, int64_t parts, int64_t row) {
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

/* alone[i] = ⟨v, query⟩, leaning[i] = ⟨v + share · (b + a), query⟩ / ‖v + share · (b + a)‖, with v, b and a the vectors
 * of an item and of its two neighbours. row: [3][n], in the order before, item, after; -1 is the zero vector. Part p,
 * at codes_at[p] and scale_at[p], has the rows start[p] to start[p + 1]. zeros: [d]. code_of, factor_of: room for
 * [3][n]. Returns -1 for a row outside all parts, else 0.
 */
WIDE int64_t score_neighbours(const uint64_t *codes_at, const uint64_t *scale_at, const int64_t *start, int64_t parts,
                              int64_t d, const int64_t *row, int64_t n, const float *query, float share,
                              const int8_t *zeros, const int8_t **code_of, float *factor_of, float *alone,
                              float *leaning) {
    for (int64_t i = 0; i < 3 * n; i++) {
        code_of[i] = zeros;
        factor_of[i] = 0;
        if (row[i] == -1) continue;
        if (row[i] < 0 || row[i] >= start[parts]) return -1;
        int64_t part = find_part(start, parts, row[i]), local = row[i] - start[part];
        code_of[i] = (const int8_t *)(uintptr_t)codes_at[part] + local * d;
        factor_of[i] = ((const float *)(uintptr_t)scale_at[part])[local];
        for (int64_t j = 0; j < d; j += 64) PREFETCH(code_of[i] + j);
    }
    for (int64_t i = 0; i < n; i++) {
        const int8_t *code[3] = {code_of[i], code_of[n + i], code_of[2 * n + i]};
        float factor[3] = {factor_of[i], factor_of[n + i], factor_of[2 * n + i]};
        float own[LANES] = {0}, product[LANES] = {0}, square[LANES] = {0};
        int64_t j = 0;
        for (; j + LANES <= d; j += LANES)
            for (int l = 0; l < LANES; l++) LEAN(l);
        for (int l = 0; j + l < d; l++) LEAN(l);
        float length = sqrtf(sum_lanes(square));
        alone[i] = sum_lanes(own);
        leaning[i] = sum_lanes(product) / (length > 1e-9f ? length : 1e-9f);
    }
    return 0;
}

/* The inner product of d floats: LANES partial sums in turn, then their sum. */
static inline float multiply(const float *a, const float *b, int64_t d) {
    eight lower = {0}, upper = {0};
    int64_t j = 0;
    for (; j + LANES <= d; j += LANES) {
        lower += LOAD(a + j) * LOAD(b + j);
        upper += LOAD(a + j + 8) * LOAD(b + j + 8);
    }
    float lane[LANES];
    memcpy(lane, &lower, sizeof lower);
    memcpy(lane + 8, &upper, sizeof upper);
    for (; j < d; j++) lane[j % LANES] += a[j] * b[j];
    return sum_lanes(lane);
}

/* out[p] = mean over the q tokens of a question of max over the tokens t of passage p of scale[t] · ⟨codes[t], query⟩.
 * Passage p has the tokens indptr[p] to indptr[p + 1] of codes[all][d]; without any, out[p] is 0. query: [q][d], q > 0.
 * value: room for [d]; best: room for [q]. Returns -1 for a token outside `all`, else 0.
 */
WIDE int64_t score_tokens(const int8_t *codes, const float *scale, int64_t all, int64_t d, const int64_t *indptr,
                          int64_t n, const float *query, int64_t q, float *value, float *best, float *out) {
    for (int64_t p = 0; p < n; p++) {
        if (indptr[p] < 0 || indptr[p + 1] < indptr[p] || indptr[p + 1] > all) return -1;
        for (int64_t i = 0; i < q; i++) best[i] = -INFINITY;
        for (int64_t t = indptr[p]; t < indptr[p + 1]; t++) {
            for (int64_t j = 0; j < d; j++) value[j] = (float)codes[t * d + j];
            for (int64_t i = 0; i < q; i++) {
                float product = scale[t] * multiply(value, query + i * d, d);
                if (product > best[i]) best[i] = product;
            }
        }
        float total = 0;
        for (int64_t i = 0; i < q; i++) total += best[i];
        out[p] = indptr[p + 1] > indptr[p] ? total / (float)q : 0;
    }
    return 0;
}
