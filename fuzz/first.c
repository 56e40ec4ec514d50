/*
 * fuzz/first.c
 *	  Have AddressSanitizer start before everything else in a server.
 *
 * It starts with the first malloc.  In a server that may be one of a library's
 * constructor, under gettext's lock; the sanitizer then asks gettext for the text
 * of an error message, and the process waits for itself.  This is linked such that
 * its constructor comes first.
 */
#include <stdlib.h>

__attribute__((constructor)) static void
first(void)
{
	free(malloc(1));
}
