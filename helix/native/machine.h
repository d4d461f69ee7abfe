/* Differences between compilers and processors, and the sum of partial sums. */
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default"))) /* the loader picks the widest */
#else
#define WIDE
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_AVX2 /* the compiler knows it; __builtin_cpu_supports says whether the processor does */
#endif

#if defined(__GNUC__)
#define PREFETCH(at) __builtin_prefetch(at)
#define UNUSED __attribute__((unused))
#else
#define PREFETCH(at) ((void)0)
#define UNUSED
#endif

/* Whether any of n rows is outside `all`. */
UNUSED static int any_outside(const int64_t *row, int64_t n, int64_t all) {
    int found = 0;
    for (int64_t i = 0; i < n; i++) found |= (uint64_t)row[i] >= (uint64_t)all;
    return found;
}
