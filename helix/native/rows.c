/* Row numbers: neighbours in a session, distinct values, reciprocal rank fusion. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

struct fused {
    uint64_t key;
    float score;
    uint32_t row;
    int64_t at; /* place in first-seen order */
};

_Static_assert(sizeof(struct fused) == 3 * sizeof(uint64_t), "room that Python allocates");

static int compare_fused(const void *left, const void *right) {
    const struct fused *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Reciprocal rank fusion: the distinct rows of some legs, the highest sum of weight / (k + rank) first; ties, as
 * floats, are in ascending order of key. Leg l is rows[end[l - 1]] to rows[end[l]], best first, ranks from 1; key:
 * [all]. Room: table [slots + m], slots a power of two above the m rows of all legs; work [4][m]. Writes row, score and
 * rank[legs][m], NaN where a leg lacks the row. Returns the number of rows, or -1 for a row outside `all`.
 */
int64_t fuse_legs(const uint32_t *rows, const int64_t *end, int64_t legs, const double *weight, double k,
                  const uint64_t *key, int64_t all, int32_t *table, int64_t slots, uint64_t *work, uint32_t *row,
                  float *score, float *rank) {
    int64_t found = 0, m = legs ? end[legs - 1] : 0;
    int32_t *slot = table + slots;
    double *sum = (double *)work;
    struct fused *entry = (struct fused *)(work + m);
    memset(table, -1, (size_t)slots * sizeof *table);
    for (int64_t i = 0; i < m; i++) { /* prefetches all keys */
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
    qsort(entry, (size_t)found, sizeof *entry, compare_fused);
    for (int64_t i = 0; i < found; i++) {
        row[i] = entry[i].row;
        score[i] = entry[i].score;
        table[entry[i].at] = (int32_t)i; /* from here on: final places */
    }
    for (int64_t i = 0; i < legs * m; i++) rank[i] = NAN;
    for (int64_t l = 0, i = 0; l < legs; l++)
        for (int64_t first = i; i < end[l]; i++) rank[l * m + table[slot[i]]] = (float)(i - first + 1);
    return found;
}

/* ring[5][n]: for each of n rows the second before it, the first before it, itself, the first after it and the second
 * after it; -1 beyond either end. Returns -1 for a row, or a neighbour, outside `all`, else 0.
 */
int64_t list_neighbours(const int32_t *previous, const int32_t *next, int64_t all, const int64_t *rows, int64_t n,
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

/* The distinct values in first-seen order, and the place of each value among them. table: room for slots, a power of
 * two above n. Returns the number of distinct values.
 */
int64_t find_distinct(const int64_t *values, int64_t n, int64_t *table, int64_t slots, int64_t *out,
                      int64_t *place) {
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
