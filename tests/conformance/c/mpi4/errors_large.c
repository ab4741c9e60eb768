/* The same with large counts.
 * conformance: ranks=2 */
#define LARGE_COUNT
#include "../errors.c"
