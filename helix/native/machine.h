/* What compilers and processors differ in. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default"))) /* the widest there is, found out at load */
#else
#define WIDE
#endif

#if defined(__GNUC__)
#define PREFETCH(at) __builtin_prefetch(at)
#else
#define PREFETCH(at) ((void)0)
#endif
