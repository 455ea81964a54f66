/* openapi.h: net/host/openapi.json, compiled in. */
#ifndef NET_HOST_OPENAPI_H
#define NET_HOST_OPENAPI_H

extern const char openapi[];

#endif
