/* lazy.h: libcurl and libmicrohttpd, loaded at first use instead of at the start of every verb. */
#ifndef NET_HTTP_LAZY_H
#define NET_HTTP_LAZY_H

#include <curl/curl.h>
#include <microhttpd.h>

#include "engine/refusal.h"

/*
 * Linking the two makes the dynamic linker pull in some forty libraries before main: 16 ms for
 * each verb instead of 5.  The names are those of the libraries without their prefix.
 */
struct lazy_curl {
	typeof(&curl_global_init) global_init;
	typeof(&curl_easy_init) easy_init;
	typeof(&curl_easy_cleanup) easy_cleanup;
	typeof(&curl_easy_setopt) easy_setopt;
	typeof(&curl_easy_getinfo) easy_getinfo;
	typeof(&curl_easy_header) easy_header;
	typeof(&curl_easy_strerror) easy_strerror;
	typeof(&curl_multi_init) multi_init;
	typeof(&curl_multi_cleanup) multi_cleanup;
	typeof(&curl_multi_setopt) multi_setopt;
	typeof(&curl_multi_add_handle) multi_add_handle;
	typeof(&curl_multi_remove_handle) multi_remove_handle;
	typeof(&curl_multi_socket_action) multi_socket_action;
	typeof(&curl_multi_info_read) multi_info_read;
	typeof(&curl_multi_assign) multi_assign;
	typeof(&curl_slist_append) slist_append;
	typeof(&curl_slist_free_all) slist_free_all;
};

struct lazy_mhd {
	typeof(&MHD_start_daemon) start_daemon;
	typeof(&MHD_stop_daemon) stop_daemon;
	typeof(&MHD_run) run;
	typeof(&MHD_get_timeout) get_timeout;
	typeof(&MHD_get_daemon_info) get_daemon_info;
	typeof(&MHD_get_connection_info) get_connection_info;
	typeof(&MHD_get_connection_values) get_connection_values;
	typeof(&MHD_set_connection_option) set_connection_option;
	typeof(&MHD_lookup_connection_value) lookup_connection_value;
	typeof(&MHD_add_connection) add_connection;
	typeof(&MHD_suspend_connection) suspend_connection;
	typeof(&MHD_resume_connection) resume_connection;
	typeof(&MHD_create_response_from_buffer) create_response_from_buffer;
	typeof(&MHD_create_response_from_callback) create_response_from_callback;
	typeof(&MHD_create_response_for_upgrade) create_response_for_upgrade;
	typeof(&MHD_upgrade_action) upgrade_action;
	typeof(&MHD_add_response_header) add_response_header;
	typeof(&MHD_queue_response) queue_response;
	typeof(&MHD_destroy_response) destroy_response;
};

/**
 * lazy_curl(refusal):
 * Return libcurl's functions, loading and initialising the library at the first call; or NULL,
 * with ${refusal} set to library.missing, which names the Debian package that is missing.  The
 * library stays loaded.  Threads may call it.
 */
const struct lazy_curl *lazy_curl(struct refusal *refusal);

/**
 * lazy_mhd(refusal):
 * The same for libmicrohttpd.
 */
const struct lazy_mhd *lazy_mhd(struct refusal *refusal);

#endif
