/* Terms in texts: counts, BM25 of several rows together, n-grams. */
#include <stdint.h>

#include "machine.h"

/* Counts t terms in the lists of n rows, and p pairs of adjacent terms: the list of row r is words[indptr[r]] to
 * words[indptr[r + 1]]. Term k is counted in count[slot[k]][n]; pair q, a term of slot left[q] directly before one of
 * slot right[q], in follows[q][n]. Both begin with zeros; count has `slots` rows. Returns -1 for a row without a list
 * or with one outside the w words, -2 for a slot outside `slots`, else 0.
 */
int64_t count_terms(const int64_t *indptr, int64_t lists, const uint32_t *words, int64_t w, const int64_t *rows,
                    int64_t n, const uint32_t *terms, const int64_t *slot, int64_t t, const int64_t *left,
                    const int64_t *right, int64_t p, int64_t slots, float *count, float *follows) {
    if (any_outside(slot, t, slots)) return -2;
    int32_t first[1024] = {0}; /* 1 + the first term with these lowest bits; most words have none */
    for (int64_t k = t - 1; k >= 0; k--) first[terms[k] & 1023] = (int32_t)k + 1;
    for (int64_t i = 0; i < n; i++) { /* checks and prefetches all lists */
        if (rows[i] < 0 || rows[i] >= lists) return -1;
        int64_t start = indptr[rows[i]], end = indptr[rows[i] + 1];
        if (start < 0 || end < start || end > w) return -1;
        for (int64_t j = start; j < end; j += 16) PREFETCH(words + j);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t start = indptr[rows[i]], end = indptr[rows[i] + 1], before = -1, last = -2;
        for (int64_t j = start; j < end; j++) {
            int64_t k = first[words[j] & 1023];
            if (!k--) continue;
            while (k < t && terms[k] != words[j]) k++;
            if (k == t) continue;
            count[slot[k] * n + i]++;
            if (last == j - 1)
                for (int64_t q = 0; q < p; q++)
                    if (left[q] == before && right[q] == slot[k]) follows[q * n + i]++;
            before = slot[k];
            last = j;
        }
    }
    return 0;
}

/* BM25 of n texts, each joined from `width` of u rows: out[i] = sum over t terms k, in order, of weight[k] * tf * gain
 * / (tf + k1 * (bare + longer * l)), with tf and l the sums of count[k][j] and length[j] over the places j in
 * place[0][i] to place[width - 1][i]; count is [t][u], place [width][n]. Returns -1 for a place outside u, else 0.
 */
int64_t score_joined(const float *count, int64_t t, int64_t u, const int64_t *place, int64_t width, int64_t n,
                     const float *weight, const float *length, float gain, float k1, float bare, float longer,
                     float *out) {
    if (any_outside(place, width * n, u)) return -1;
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

/* N-grams of up to `longest` terms of one text with bit key & mask set in `wanted`; the key is the sum of
 * (term + 1) * power[place in the n-gram]. Writes (key, first term, terms) of each, at most n * longest, and returns
 * their number.
 */
int64_t find_ngrams(const int64_t *text, const uint32_t *terms, int64_t n, const uint64_t *power, int64_t longest,
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
