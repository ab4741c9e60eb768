/* The same with large counts.
 * conformance: ranks=4 */
#define LARGE_COUNT
#include "../persistent_neighbourhood.c"
