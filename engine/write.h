/* write.h: all of it, or an error. */
#ifndef ENGINE_WRITE_H
#define ENGINE_WRITE_H

#include <stddef.h>

/**
 * write_all(fd, data, len):
 * Write the ${len} bytes of ${data} to the blocking descriptor ${fd}, however many calls that takes
 * and whatever signals come.  Return 0, or -1 with errno and part of it written.
 */
int write_all(int fd, const void *data, size_t len);

#endif
