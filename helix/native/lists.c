/* Top rows of inverted lists by 4-bit product codes, looked up in tables that fit registers (André, Kermarrec & Le
 * Scouarnec 2015), 32 rows at a time. Sums are of integers: the same on every machine.
 *
 * Each piece of a group of 32 rows has 16 bytes, piece after piece: byte j has the codes of the rows j / 2 + 8 · (j %
 * 2) and 16 more, the second in its upper half. FAISS packs them this way (Douze et al. 2024).
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "machine.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86 1
#define LOOK_UP(table, at) ((bytes16)_mm_shuffle_epi8((__m128i)(table), (__m128i)(at)))
#define BY_16 __attribute__((target("ssse3")))
#elif defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>
#define LOOK_UP(table, at) ((bytes16)vqtbl1q_u8((uint8x16_t)(table), (uint8x16_t)(at)))
#define BY_16
#endif

#define GROUP 32
#define PIECE 16 /* bytes of a piece of a group, and of its table */
#define MOST_NEAR (1 << 24)

/* sum[r] = sum over m pieces of table[piece][code of row r], below 2^16. `ahead` is prefetched. */
typedef void sums_of(const uint8_t *code, const uint8_t *table, int64_t m, const uint8_t *ahead, uint16_t *sum);

static void sums_plain(const uint8_t *code, const uint8_t *table, int64_t m, const uint8_t *ahead, uint16_t *sum) {
    (void)ahead;
    memset(sum, 0, GROUP * sizeof(uint16_t));
    for (int64_t p = 0; p < m; p++, code += PIECE, table += PIECE)
        for (int j = 0; j < PIECE; j++) {
            int row = j / 2 + 8 * (j % 2);
            sum[row] = (uint16_t)(sum[row] + table[code[j] & 15]);
            sum[row + 16] = (uint16_t)(sum[row + 16] + table[code[j] >> 4]);
        }
}

#ifdef LOOK_UP
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t sums16 __attribute__((vector_size(16)));

/* One piece at a time. The two bytes of 16 bits belong to two rows: `both` sums them as one number, `upper` sums the
 * upper byte alone, so that the difference is the sum of the lower byte.
 */
BY_16 static void sums_16(const uint8_t *code, const uint8_t *table, int64_t m, const uint8_t *ahead, uint16_t *sum) {
    sums16 both = {0}, upper = {0}, both16 = {0}, upper16 = {0};
    for (int64_t p = 0; p < m; p++) {
        bytes16 codes, tables;
        if (!(p & 3)) PREFETCH(ahead + p * PIECE);
        memcpy(&codes, code + p * PIECE, sizeof codes);
        memcpy(&tables, table + p * PIECE, sizeof tables);
        sums16 here = (sums16)LOOK_UP(tables, codes & 15), here16 = (sums16)LOOK_UP(tables, codes >> 4);
        both += here;
        upper += here >> 8;
        both16 += here16;
        upper16 += here16 >> 8;
    }
    both -= upper << 8;
    both16 -= upper16 << 8;
    const sums16 all[4] = {both, upper, both16, upper16};
    memcpy(sum, all, sizeof all);
}
#endif

#ifdef X86
/* The same sums, two pieces at a time, then four. */
__attribute__((target("avx2"))) static void sums_32(const uint8_t *code, const uint8_t *table, int64_t m,
                                                    const uint8_t *ahead, uint16_t *sum) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i both = _mm256_setzero_si256(), upper = both, both16 = both, upper16 = both;
    for (int64_t p = 0; p < m; p += 2) {
        if (!(p & 3)) PREFETCH(ahead + p * PIECE);
        __m256i codes = _mm256_loadu_si256((const void *)(code + p * PIECE));
        __m256i tables = _mm256_loadu_si256((const void *)(table + p * PIECE));
        __m256i here = _mm256_shuffle_epi8(tables, _mm256_and_si256(codes, low));
        __m256i here16 = _mm256_shuffle_epi8(tables, _mm256_and_si256(_mm256_srli_epi16(codes, 4), low));
        both = _mm256_add_epi16(both, here);
        upper = _mm256_add_epi16(upper, _mm256_srli_epi16(here, 8));
        both16 = _mm256_add_epi16(both16, here16);
        upper16 = _mm256_add_epi16(upper16, _mm256_srli_epi16(here16, 8));
    }
    both = _mm256_sub_epi16(both, _mm256_slli_epi16(upper, 8));
    both16 = _mm256_sub_epi16(both16, _mm256_slli_epi16(upper16, 8));
    const __m256i all[4] = {both, upper, both16, upper16};
    for (int i = 0; i < 4; i++) {
        __m128i one = _mm_add_epi16(_mm256_castsi256_si128(all[i]), _mm256_extracti128_si256(all[i], 1));
        _mm_storeu_si128((void *)(sum + 8 * i), one);
    }
}

__attribute__((target("avx512f,avx512bw"))) static void sums_64(const uint8_t *code, const uint8_t *table, int64_t m,
                                                                const uint8_t *ahead, uint16_t *sum) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i both = _mm512_setzero_si512(), upper = both, both16 = both, upper16 = both;
    for (int64_t p = 0; p < m; p += 4) {
        __mmask16 there = m - p < 4 ? 0xff : 0xffff; /* m is even */
        PREFETCH(ahead + p * PIECE);
        __m512i codes = _mm512_maskz_loadu_epi32(there, code + p * PIECE);
        __m512i tables = _mm512_maskz_loadu_epi32(there, table + p * PIECE);
        __m512i here = _mm512_shuffle_epi8(tables, _mm512_and_si512(codes, low));
        __m512i here16 = _mm512_shuffle_epi8(tables, _mm512_and_si512(_mm512_srli_epi16(codes, 4), low));
        both = _mm512_add_epi16(both, here);
        upper = _mm512_add_epi16(upper, _mm512_srli_epi16(here, 8));
        both16 = _mm512_add_epi16(both16, here16);
        upper16 = _mm512_add_epi16(upper16, _mm512_srli_epi16(here16, 8));
    }
    both = _mm512_sub_epi16(both, _mm512_slli_epi16(upper, 8));
    both16 = _mm512_sub_epi16(both16, _mm512_slli_epi16(upper16, 8));
    const __m512i all[4] = {both, upper, both16, upper16};
    for (int i = 0; i < 4; i++) {
        __m256i two = _mm256_add_epi16(_mm512_castsi512_si256(all[i]), _mm512_extracti64x4_epi64(all[i], 1));
        __m128i one = _mm_add_epi16(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
        _mm_storeu_si128((void *)(sum + 8 * i), one);
    }
}
#endif

/* table[p][c] = the part of code c of piece p in an inner product with the query, less the least of the piece: `size`
 * dimensions a piece, book[size][m][16], query[m * size]. Returns the largest.
 */
float build_code_table(const float *book, int64_t size, int64_t m, const float *query, float *table) {
    float most = 0;
    for (int64_t p = 0; p < m; p++, table += PIECE) {
        float least = 0;
        for (int c = 0; c < PIECE; c++) table[c] = 0;
        for (int64_t i = 0; i < size; i++)
            for (int c = 0; c < PIECE; c++) table[c] += query[p * size + i] * book[(i * m + p) * PIECE + c];
        for (int c = 0; c < PIECE; c++) least = c && least < table[c] ? least : table[c];
        for (int c = 0; c < PIECE; c++) {
            table[c] -= least;
            most = table[c] > most ? table[c] : most;
        }
    }
    return most;
}

/* out[i] = table[i] * steps, rounded */
void round_to_steps(const float *table, int64_t n, float steps, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)lrintf(table[i] * steps);
}

/* The function for registers of `bytes`: 1 for plain C, 0 for the widest of this machine; NULL if it has none such. */
static sums_of *choose_sums(int64_t bytes) {
#ifdef X86
    int wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512f");
    if (wide && (!bytes || bytes == 64)) return sums_64;
    if (__builtin_cpu_supports("avx2") && (!bytes || bytes == 32)) return sums_32;
    if (__builtin_cpu_supports("ssse3") && (!bytes || bytes == 16)) return sums_16;
#elif defined(LOOK_UP)
    if (!bytes || bytes == 16) return sums_16;
#endif
    return bytes < 2 ? sums_plain : NULL;
}

/* Moves the k largest of n distinct keys to the front (Hoare 1961). */
static void select_largest(uint64_t *key, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        uint64_t middle = key[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (key[i] > middle) i++;
            while (key[j] < middle) j--;
            if (i > j) break;
            uint64_t other = key[i];
            key[i++] = key[j];
            key[j--] = other;
        }
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            return;
    }
}

/* The top k rows of n lists, in no order; ties keep the smaller row. List l is at code[l] and row[l]: size[l] rows, and
 * their codes in whole groups. A row of list[i] has the score near[i] + sum of m table entries, m even. allowed: [all],
 * or NULL; key: room for 4 * k. Returns the number of rows, -1 for a row outside `all`, -2 if this machine has no
 * registers of `bytes`, -3 for a list outside `lists`, -4 for near[i] outside 0 to MOST_NEAR.
 */
int64_t search_lists(const uint64_t *code, const uint64_t *row, const int64_t *size, int64_t lists, const int64_t *list,
                     const int32_t *near, int64_t n, const uint8_t *table, int64_t m, const uint8_t *allowed,
                     int64_t all, int64_t k, int64_t bytes, uint64_t *key, int64_t *out) {
    sums_of *sums = choose_sums(bytes);
    if (!sums) return -2;
    for (int64_t i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= lists) return -3;
        if (near[i] < 0 || near[i] > MOST_NEAR) return -4;
    }
    int64_t found = 0;
    uint64_t least = 0; /* of the top k so far: score, then the inverted row */
    for (int64_t l = 0; l < n; l++) {
        const uint8_t *at = (const uint8_t *)(uintptr_t)code[list[l]];
        const int64_t *rows = (const int64_t *)(uintptr_t)row[list[l]];
        const uint8_t *next = l + 1 < n ? (const uint8_t *)(uintptr_t)code[list[l + 1]] : at;
        const int64_t held = size[list[l]];
        for (int64_t first = 0; first < held; first += GROUP, at += m * PIECE) {
            uint16_t sum[GROUP], any = 0;
            int64_t left = held - first, ahead = left > 2 * GROUP ? 2 : 0; /* a group is 3 KB: prefetches two ahead */
            sums(at, table, m, ahead ? at + ahead * m * PIECE : left > GROUP ? next : next + m * PIECE, sum);
            int64_t needed = (int64_t)(least >> 32) - near[l];
            if (needed > UINT16_MAX) continue;
            uint16_t bar = needed < 0 ? 0 : (uint16_t)needed;
            for (int i = 0; i < GROUP; i++) any |= (uint16_t)-(sum[i] >= bar);
            if (!any) continue;
            for (int64_t i = 0, here = left < GROUP ? left : GROUP; i < here; i++) {
                if (sum[i] < bar) continue;
                int64_t r = rows[first + i];
                if (r < 0 || r >= all) return -1;
                uint64_t one = (uint64_t)(sum[i] + near[l]) << 32 | (UINT32_MAX - (uint32_t)r);
                if (one < least || (allowed && !allowed[r])) continue;
                key[found++] = one;
                if (found < 4 * k) continue;
                select_largest(key, found, k);
                found = k;
                least = key[0];
                for (int64_t j = 1; j < k; j++) least = key[j] < least ? key[j] : least;
                needed = (int64_t)(least >> 32) - near[l];
                if (needed > UINT16_MAX) break;
                bar = needed < 0 ? 0 : (uint16_t)needed;
            }
        }
    }
    if (found > k) {
        select_largest(key, found, k);
        found = k;
    }
    for (int64_t i = 0; i < found; i++) out[i] = (int64_t)(UINT32_MAX - (uint32_t)key[i]);
    return found;
}

/* The code of each of m pieces of n rows that is nearest to it, the first of equals: out[n, m]. rows: [n, m * size];
 * book: [m, size, PIECE], the codes' numbers; half: [m, PIECE], half of each code's square. The products of a piece are
 * summed in order.
 */
void encode_pieces(const float *rows, int64_t n, int64_t m, int64_t size, const float *book, const float *half,
                   uint8_t *out) {
    for (int64_t i = 0; i < n * m; i++, rows += size) {
        const float *codes = book + i % m * size * PIECE, *less = half + i % m * PIECE;
        float near[PIECE] = {0};
        for (int64_t j = 0; j < size; j++)
            for (int c = 0; c < PIECE; c++) near[c] += rows[j] * codes[j * PIECE + c];
        for (int c = 0; c < PIECE; c++) near[c] -= less[c];
        float most = near[0];
        for (int c = 1; c < PIECE; c++) most = near[c] > most ? near[c] : most;
        int code = PIECE - 1;
        for (int c = PIECE - 2; c >= 0; c--) code = near[c] == most ? c : code;
        out[i] = (uint8_t)code;
    }
}
