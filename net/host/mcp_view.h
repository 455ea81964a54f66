/* mcp_view.h: the resources of MCP: views of the database as JSON. */
#ifndef NET_HOST_MCP_VIEW_H
#define NET_HOST_MCP_VIEW_H

#include "engine/store/store.h"

/* What is returned here is for the caller to free; NULL: there is none, or SQLite failed. */

/**
 * mcp_text(q):
 * Return the first column of the first row of ${q}, which may be NULL after a failure.
 */
char *mcp_text(struct stmt *q);

/**
 * mcp_view_list(db), mcp_view_templates(db):
 * Return the results of resources/list and resources/templates/list, for the role of this machine.
 */
char *mcp_view_list(struct store *db);
char *mcp_view_templates(struct store *db);

/**
 * mcp_view_read(db, uri):
 * Return the resource ${uri}: one JSON text.
 */
char *mcp_view_read(struct store *db, const char *uri);

#endif
