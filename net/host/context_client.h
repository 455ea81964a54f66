/* context_client.h: a user's end of the socket on which folders are asked to be shared. */
#ifndef NET_HOST_CONTEXT_CLIENT_H
#define NET_HOST_CONTEXT_CLIENT_H

#include "net/http/client.h"

/**
 * context_call(method, path, body, answer, refusal):
 * Make the request ${method} ${path} with the JSON text ${body} (NULL: none) of the bastion that
 * answers users here: that of BASTION_RUN, else the system's, else the user's own.  Return 0 with
 * the JSON text of its answer in ${answer}->body, to be freed; or -1 with ${refusal}
 * context.offline where nobody listens, what the bastion refused, or as for http_start.
 */
int context_call(const char *method, const char *path, const char *body, struct http_answer *answer,
    struct refusal *refusal);

#endif
