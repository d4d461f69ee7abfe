/* Filters by a range of values, with zone maps (Moerkotte 1998). */
#include <stdint.h>
#include <string.h>

#include "machine.h"

#define AHEAD 8 /* zones to prefetch ahead */
#define STRADDLES(z) (least[z] < from || most[z] > to)

/* passed[i] = among[i] and low <= value[i] <= high; returns the number of rows that pass. Zone z has the rows begin[z]
 * to begin[z + 1], at most UINT8_MAX, and values from least[z] to most[z]; if all of a zone pass, or none, its values
 * are not read. among: NULL if all may pass; some: room for all zones. Returns -1 for a zone outside the n rows.
 */
#define FILTER(NAME, TYPE, LEAST, MOST)                                                                                \
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

FILTER(filter_int64, int64_t, INT64_MIN, INT64_MAX)
FILTER(filter_int32, int32_t, INT32_MIN, INT32_MAX)
FILTER(filter_uint8, uint8_t, 0, UINT8_MAX)
