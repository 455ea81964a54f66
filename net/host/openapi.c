/* openapi.c: the description of the protocol, as it stands beside this file. */
#include "net/host/openapi.h"

__asm__(".section .rodata\n"
	".globl openapi_begin\nopenapi_begin: .incbin \"net/host/openapi.json\"\n"
	".globl openapi_end\nopenapi_end: .byte 0\n"
	".previous");
