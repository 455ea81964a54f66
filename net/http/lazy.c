/* lazy.c: the tables of two libraries' functions. */
#include <stdbool.h>
#include <stddef.h>

#include "engine/library.h"
#include "net/http/lazy.h"

static const struct library_symbol curl_symbols[] = {
    {"curl_global_init", offsetof(struct lazy_curl, global_init)},
    {"curl_easy_init", offsetof(struct lazy_curl, easy_init)},
    {"curl_easy_cleanup", offsetof(struct lazy_curl, easy_cleanup)},
    {"curl_easy_setopt", offsetof(struct lazy_curl, easy_setopt)},
    {"curl_easy_getinfo", offsetof(struct lazy_curl, easy_getinfo)},
    {"curl_easy_header", offsetof(struct lazy_curl, easy_header)},
    {"curl_easy_strerror", offsetof(struct lazy_curl, easy_strerror)},
    {"curl_multi_init", offsetof(struct lazy_curl, multi_init)},
    {"curl_multi_cleanup", offsetof(struct lazy_curl, multi_cleanup)},
    {"curl_multi_setopt", offsetof(struct lazy_curl, multi_setopt)},
    {"curl_multi_add_handle", offsetof(struct lazy_curl, multi_add_handle)},
    {"curl_multi_remove_handle", offsetof(struct lazy_curl, multi_remove_handle)},
    {"curl_multi_socket_action", offsetof(struct lazy_curl, multi_socket_action)},
    {"curl_multi_info_read", offsetof(struct lazy_curl, multi_info_read)},
    {"curl_multi_assign", offsetof(struct lazy_curl, multi_assign)},
    {"curl_slist_append", offsetof(struct lazy_curl, slist_append)},
    {"curl_slist_free_all", offsetof(struct lazy_curl, slist_free_all)},
    {NULL, 0},
};

static const struct library_symbol mhd_symbols[] = {
    {"MHD_start_daemon", offsetof(struct lazy_mhd, start_daemon)},
    {"MHD_stop_daemon", offsetof(struct lazy_mhd, stop_daemon)},
    {"MHD_run", offsetof(struct lazy_mhd, run)},
    {"MHD_get_timeout", offsetof(struct lazy_mhd, get_timeout)},
    {"MHD_get_daemon_info", offsetof(struct lazy_mhd, get_daemon_info)},
    {"MHD_get_connection_info", offsetof(struct lazy_mhd, get_connection_info)},
    {"MHD_get_connection_values", offsetof(struct lazy_mhd, get_connection_values)},
    {"MHD_set_connection_option", offsetof(struct lazy_mhd, set_connection_option)},
    {"MHD_lookup_connection_value", offsetof(struct lazy_mhd, lookup_connection_value)},
    {"MHD_add_connection", offsetof(struct lazy_mhd, add_connection)},
    {"MHD_suspend_connection", offsetof(struct lazy_mhd, suspend_connection)},
    {"MHD_resume_connection", offsetof(struct lazy_mhd, resume_connection)},
    {"MHD_create_response_from_buffer", offsetof(struct lazy_mhd, create_response_from_buffer)},
    {"MHD_create_response_from_callback", offsetof(struct lazy_mhd, create_response_from_callback)},
    {"MHD_create_response_for_upgrade", offsetof(struct lazy_mhd, create_response_for_upgrade)},
    {"MHD_upgrade_action", offsetof(struct lazy_mhd, upgrade_action)},
    {"MHD_add_response_header", offsetof(struct lazy_mhd, add_response_header)},
    {"MHD_queue_response", offsetof(struct lazy_mhd, queue_response)},
    {"MHD_destroy_response", offsetof(struct lazy_mhd, destroy_response)},
    {NULL, 0},
};

static struct lazy_curl curl;

static int
curl_begin(struct refusal *refusal)
{
	return curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
		   ? 0
		   : refusal_set(refusal, "library.missing", "libcurl does not initialise");
}

const struct lazy_curl *
lazy_curl(struct refusal *refusal)
{
	static struct library library = {
	    "libcurl.so.4", "libcurl4", curl_symbols, &curl, curl_begin, false};

	return library_once(&library, refusal);
}

const struct lazy_mhd *
lazy_mhd(struct refusal *refusal)
{
	static struct lazy_mhd table;
	static struct library library = {
	    "libmicrohttpd.so.12", "libmicrohttpd12", mhd_symbols, &table, NULL, false};

	return library_once(&library, refusal);
}
