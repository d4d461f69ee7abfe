/* The kernels: loops that array operations cannot do in few passes. Plain C11 without Python; the Python modules of
 * this folder say what each takes. Sums have a stated order and products are not contracted into sums (see
 * hatch_build.py), so the same input gives the same bits on every machine.
 *
 * The wrappers check lengths and dtypes (helix/native/arrays.py). The contents of an array may come from a damaged
 * file: a kernel compares every number that says where to read or write with its range before it uses it.
 */
#include <stdint.h>

/* Incremented with every change of a kernel's name or arguments; equal to VERSION in helix/native/library.py. */
int64_t kernels_version(void) { return 5; }
