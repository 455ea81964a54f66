/* openapi.c: the description of the protocol, as it stands beside this file. */
#include "net/host/openapi.h"

__asm__(".section .rodata\n"
	".globl openapi\n"
	"openapi: .incbin \"net/host/openapi.json\"\n"
	".byte 0\n"
	".previous");
