/* slower.h: how much more time a limit of a test leaves where a sanitizer slows everything down. */
#ifndef TESTS_SLOWER_H
#define TESTS_SLOWER_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 8
#else
#define SLOWER 1
#endif

#endif
