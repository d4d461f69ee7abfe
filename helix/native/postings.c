/* The exact top k rows by BM25 or by learned-sparse weights: MaxScore (Turtle & Flood 1995), a range of rows at a time.
 *
 * Within a range, terms are scored one after the other, rarest first, so that scores stay in a processor's own cache.
 * The rows of few postings are listed as they come; those of many are searched for once all are added.
 * Once k rows are known, frequent terms that alone cannot lift a row into the top k are only added to rows of other
 * terms, and rows that can no longer reach it are dropped, where that is less work than adding all. The order of terms is
 * the same for every row: its score has the same bits as if every posting had been scored.
 */
#include <stdint.h>
#include <string.h>

#include "machine.h"

/* Postings are few if there is not one in so many rows of a range. */
enum { FEW = 16 };

/* place[i] = row[i] + shift, gain[i] = tf / (norm of that place + tf) · weight; without norms tf · weight. Returns 0 if
 * a place is not below width.
 */
WIDE int64_t compute_gains(const uint32_t *row, const uint16_t *tf, int64_t n, uint32_t shift, uint32_t width,
                           const float *norm, float weight, uint32_t *place, float *gain) {
    uint32_t outside = 0;
    for (int64_t i = 0; i < n; i++) {
        place[i] = row[i] + shift;
        outside |= place[i] >= width;
    }
    if (outside) return 0;
    if (norm)
        for (int64_t i = 0; i < n; i++) {
            float count = tf[i];
            gain[i] = count / (norm[place[i]] + count) * weight;
        }
    else
        for (int64_t i = 0; i < n; i++) gain[i] = tf[i] * weight;
    return 1;
}

/* The gain of one posting, with the same bits. */
static inline float compute_gain(uint16_t tf, const float *norm, float weight) {
    float count = tf;
    return norm ? count / (*norm + count) * weight : count * weight;
}

/* Add the gains of m postings, at places of their own. */
static void add_gains(float *restrict scores, const uint32_t *restrict place, const float *restrict gain, int64_t m) {
    for (int64_t i = 0; i < m; i++) scores[place[i]] += gain[i];
}

/* The number of scores that are at least `least`. */
WIDE int64_t count_scores(const float *scores, int64_t width, float least) {
    int32_t count = 0;
    for (int64_t i = 0; i < width; i++) count += scores[i] >= least;
    return count;
}

/* Set to 0 the scores that are below `least`, and those of places that `passes`, if not 0, does not let through. Writes
 * the places of the others, ascending. Returns their number; -1 for a score that is not at least 0.
 */
WIDE int64_t keep_scores(float *scores, int64_t width, const uint8_t *passes, float least, uint32_t *touched) {
    enum { BLOCK = 64 };
    int64_t count = 0;
    int wrong = 0;
    for (int64_t low = 0; low < width; low += BLOCK) {
        int64_t n = width - low < BLOCK ? width - low : BLOCK;
        float *here = scores + low;
        int any = 0;
        for (int64_t i = 0; i < n; i++) {
            any |= here[i] >= least;
            wrong |= !(here[i] >= 0);
        }
        if (!any) {
            memset(here, 0, (size_t)n * sizeof *here);
            continue;
        }
        for (int64_t i = 0; i < n; i++) { /* without a jump: which scores are kept cannot be foreseen */
            int kept = (here[i] > 0) & (here[i] >= least) & (!passes || passes[low + i]);
            touched[count] = (uint32_t)(low + i);
            count += kept;
            here[i] = kept ? here[i] : 0;
        }
    }
    return wrong ? -1 : count;
}

/* The first of the ascending rows in [at, end) that is not below `wanted`, or `end`. */
static int64_t bisect(const uint32_t *row, int64_t at, int64_t end, int64_t wanted) {
    while (at < end) {
        int64_t middle = (at + end) / 2;
        if (row[middle] < wanted)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* The same in [at, size), fast if the row is near `at`: steps that double, then bisection. */
static int64_t gallop(const uint32_t *row, int64_t size, int64_t at, int64_t wanted) {
    int64_t step = 1;
    while (at + step <= size && row[at + step - 1] < wanted) {
        at += step;
        step *= 2;
    }
    return bisect(row, at, at + step - 1 < size ? at + step - 1 : size, wanted);
}

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

/* Add the gains of m postings; write the places that had no score after the `count` that are listed, and return the new
 * number, or -1 if there are more than `range`: a row is repeated, or with a damaged length scores fall.
 */
static int64_t list_gains(float *scores, const uint32_t *place, const float *gain, int64_t m, const uint8_t *passes,
                          int64_t range, uint32_t *touched, int64_t count) {
    for (int64_t i = 0; i < m; i++) {
        uint32_t at = place[i];
        if (passes && !passes[at]) continue;
        float before = scores[at], after = before + gain[i];
        if (before == 0 && after > 0) {
            if (count == range) return -1;
            touched[count++] = at;
        }
        scores[at] = after;
    }
    return count;
}

/* Drop the listed places whose score is below `least`; it becomes 0. Returns the number of those that stay. */
static int64_t drop_places(float *scores, uint32_t *touched, int64_t count, float least) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t at = touched[i];
        touched[kept] = at;
        if (scores[at] >= least)
            kept++;
        else
            scores[at] = 0;
    }
    return kept;
}

/* Postings of term t, rarest first, are the parts first[t] to first[t + 1]: size[p] ascending rows at row_at[p],
 * counted from start[p], with term frequencies at tf_at[p]. Terms t and later add at most rest[t] to a row. norm: 0 if
 * the gain of a posting is tf · weight (learned-sparse). Finding a row in postings costs as much as reading look_up of
 * them.
 *
 * next[parts], heap[k], work[4][range]: room. *floor_at: a lower bound of wanted scores, raised to slack times the k-th
 * best. out_row, out_score: rows that may be among the top k, with the top k among them; `room` entries, the smaller of
 * the numbers of rows and postings. Returns the number of rows, -1 for a posting outside the `all` rows or a score that
 * falls when a term is added, -2 if the parts do not belong to the terms.
 */
int64_t search_postings(int64_t range, int64_t look_up, const uint64_t *row_at, const uint64_t *tf_at,
                        const int64_t *size, const int64_t *start, int64_t parts, const int64_t *first, int64_t terms,
                        const float *weight, const float *rest, const uint8_t *allowed, const float *norm, int64_t all,
                        int64_t k, float slack, float *floor_at, float *heap, int64_t *next, uint32_t *work,
                        int64_t room, uint32_t *out_row, float *out_score) {
    uint32_t *place = work, *touched = work + range;
    float *gain = (float *)(work + 2 * range), *scores = (float *)(work + 3 * range);
    int64_t held = 0, found = 0;
    float floor = *floor_at;
    if (first[0] || first[terms] != parts) return -2;
    for (int64_t t = 0; t < terms; t++)
        if (first[t] > first[t + 1]) return -2;
    for (int64_t p = 0; p < parts; p++) { /* rows ascend: checking the last suffices */
        if (start[p] < 0 || start[p] > all) return -1;
        if (size[p] && start[p] + ((const uint32_t *)(uintptr_t)row_at[p])[size[p] - 1] >= all) return -1;
        next[p] = 0;
    }
    memset(scores, 0, (size_t)range * sizeof *scores);
    for (int64_t low = 0; low < all; low += range) {
        int64_t high = low + range < all ? low + range : all, essential = terms, count = 0;
        const float *norms = norm ? norm + low : 0;
        const uint8_t *passes = allowed ? allowed + low : 0;
        int64_t width = high - low, read = 0, left = 0, listed = 1;
        while (essential && rest[essential - 1] < floor) essential--;
        if (!essential) break; /* no other row can reach the top k */
        for (int64_t p = first[essential]; p < parts; p++) left += size[p];
        for (int64_t t = 0; t < terms; t++) {
            float least = floor - rest[t];
            if (t == essential && !listed) { /* looking up the rows that remain may be less work */
                int64_t remain = count_scores(scores, width, least);
                if (remain * look_up * (terms - t) < left * width / all) {
                    count = keep_scores(scores, width, passes, least, touched);
                    if (count < 0) return -1;
                    listed = 1;
                }
            } else if (t >= essential && listed)
                count = drop_places(scores, touched, count, least);
            if (t >= essential && listed && !count) break;
            for (int64_t p = first[t]; p < first[t + 1]; p++) {
                const uint32_t *row = (const uint32_t *)(uintptr_t)row_at[p];
                const uint16_t *tf = (const uint16_t *)(uintptr_t)tf_at[p];
                int64_t begin = gallop(row, size[p], next[p], low - start[p]);
                int64_t end = gallop(row, size[p], begin, high - start[p]), m;
                next[p] = end;
                if (t >= essential && listed && count * look_up < end - begin) {
                    for (int64_t i = 0; i < count; i++) {
                        int64_t wanted = low + touched[i] - start[p], at = bisect(row, begin, end, wanted);
                        if (at == end || row[at] != wanted) continue;
                        scores[touched[i]] += compute_gain(tf[at], norms ? norms + touched[i] : 0, weight[t]);
                    }
                    continue;
                }
                for (int64_t i = begin; i < end; i += m) {
                    m = end - i < range ? end - i : range;
                    if (!compute_gains(row + i, tf + i, m, (uint32_t)(start[p] - low), (uint32_t)width, norms,
                                       weight[t], place, gain))
                        return -1;
                    read += m;
                    if (t < essential && read > range / FEW) listed = 0;
                    if (!listed)
                        add_gains(scores, place, gain, m);
                    else if (t < essential)
                        count = list_gains(scores, place, gain, m, passes, range, touched, count);
                    else
                        for (int64_t j = 0; j < m; j++) scores[place[j]] += scores[place[j]] == 0 ? 0 : gain[j];
                    if (count < 0) return -1;
                }
            }
        }
        if (!listed) count = keep_scores(scores, width, passes, floor, touched);
        if (count < 0) return -1;
        for (int64_t i = 0; i < count; i++) {
            float score = scores[touched[i]];
            scores[touched[i]] = 0;
            if (score < floor) continue;
            if (found == room) return -1;
            out_row[found] = (uint32_t)low + touched[i];
            out_score[found++] = score;
            if (held < k) {
                heap[held] = score;
                sift_up(heap, held++);
            } else if (score > heap[0]) {
                heap[0] = score;
                sift_down(heap, k);
            }
            if (held == k && slack * heap[0] > floor) floor = slack * heap[0];
        }
    }
    *floor_at = floor;
    return found;
}
