/* openssl.c: the tables of OpenSSL's functions. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/crypto/openssl.h"
#include "engine/library.h"

static const struct library_symbol crypto_symbols[] = {
    {"ASN1_STRING_get0_data", offsetof(struct openssl_crypto, ASN1_STRING_get0_data)},
    {"ASN1_STRING_length", offsetof(struct openssl_crypto, ASN1_STRING_length)},
    {"ASN1_TIME_diff", offsetof(struct openssl_crypto, ASN1_TIME_diff)},
    {"ASN1_TIME_to_tm", offsetof(struct openssl_crypto, ASN1_TIME_to_tm)},
    {"BIO_free", offsetof(struct openssl_crypto, BIO_free)},
    {"BIO_new", offsetof(struct openssl_crypto, BIO_new)},
    {"BIO_read", offsetof(struct openssl_crypto, BIO_read)},
    {"BIO_s_mem", offsetof(struct openssl_crypto, BIO_s_mem)},
    {"ERR_clear_error", offsetof(struct openssl_crypto, ERR_clear_error)},
    {"EVP_sha1", offsetof(struct openssl_crypto, EVP_sha1)},
    {"GENERAL_NAMES_free", offsetof(struct openssl_crypto, GENERAL_NAMES_free)},
    {"HMAC", offsetof(struct openssl_crypto, HMAC)},
    {"OPENSSL_sk_num", offsetof(struct openssl_crypto, OPENSSL_sk_num)},
    {"OPENSSL_sk_value", offsetof(struct openssl_crypto, OPENSSL_sk_value)},
    {"OpenSSL_version", offsetof(struct openssl_crypto, OpenSSL_version)},
    {"X509_NAME_print_ex", offsetof(struct openssl_crypto, X509_NAME_print_ex)},
    {"X509_VERIFY_PARAM_set1_host", offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set1_host)},
    {"X509_VERIFY_PARAM_set1_ip_asc",
	offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set1_ip_asc)},
    {"X509_VERIFY_PARAM_set_auth_level",
	offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set_auth_level)},
    {"X509_free", offsetof(struct openssl_crypto, X509_free)},
    {"X509_get0_notAfter", offsetof(struct openssl_crypto, X509_get0_notAfter)},
    {"X509_get0_notBefore", offsetof(struct openssl_crypto, X509_get0_notBefore)},
    {"X509_get_ext_d2i", offsetof(struct openssl_crypto, X509_get_ext_d2i)},
    {"X509_get_issuer_name", offsetof(struct openssl_crypto, X509_get_issuer_name)},
    {"X509_get_subject_name", offsetof(struct openssl_crypto, X509_get_subject_name)},
    {"X509_verify_cert_error_string",
	offsetof(struct openssl_crypto, X509_verify_cert_error_string)},
    {NULL, 0},
};

static const struct library_symbol ssl_symbols[] = {
    {"SSL_CTX_ctrl", offsetof(struct openssl_ssl, SSL_CTX_ctrl)},
    {"SSL_CTX_free", offsetof(struct openssl_ssl, SSL_CTX_free)},
    {"SSL_CTX_get0_param", offsetof(struct openssl_ssl, SSL_CTX_get0_param)},
    {"SSL_CTX_load_verify_locations", offsetof(struct openssl_ssl, SSL_CTX_load_verify_locations)},
    {"SSL_CTX_new", offsetof(struct openssl_ssl, SSL_CTX_new)},
    {"SSL_CTX_set_cipher_list", offsetof(struct openssl_ssl, SSL_CTX_set_cipher_list)},
    {"SSL_CTX_set_default_verify_paths",
	offsetof(struct openssl_ssl, SSL_CTX_set_default_verify_paths)},
    {"SSL_CTX_set_options", offsetof(struct openssl_ssl, SSL_CTX_set_options)},
    {"SSL_CTX_set_security_level", offsetof(struct openssl_ssl, SSL_CTX_set_security_level)},
    {"SSL_CTX_set_verify", offsetof(struct openssl_ssl, SSL_CTX_set_verify)},
    {"SSL_connect", offsetof(struct openssl_ssl, SSL_connect)},
    {"SSL_ctrl", offsetof(struct openssl_ssl, SSL_ctrl)},
    {"SSL_free", offsetof(struct openssl_ssl, SSL_free)},
    {"SSL_get0_param", offsetof(struct openssl_ssl, SSL_get0_param)},
    {"SSL_get1_peer_certificate", offsetof(struct openssl_ssl, SSL_get1_peer_certificate)},
    {"SSL_get_error", offsetof(struct openssl_ssl, SSL_get_error)},
    {"SSL_get_verify_result", offsetof(struct openssl_ssl, SSL_get_verify_result)},
    {"SSL_get_version", offsetof(struct openssl_ssl, SSL_get_version)},
    {"SSL_new", offsetof(struct openssl_ssl, SSL_new)},
    {"SSL_set_fd", offsetof(struct openssl_ssl, SSL_set_fd)},
    {"TLS_client_method", offsetof(struct openssl_ssl, TLS_client_method)},
    {NULL, 0},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const struct openssl_crypto *
openssl_crypto(struct refusal *r)
{
	static struct openssl_crypto table;
	static bool loaded;
	bool usable;

	pthread_mutex_lock(&lock);
	if (!loaded)
		loaded = library_load("libcrypto.so.3", "libssl3", crypto_symbols, &table, r) == 0;
	usable = loaded;
	pthread_mutex_unlock(&lock);
	return usable ? &table : NULL;
}

const struct openssl_ssl *
openssl_ssl(struct refusal *r)
{
	static struct openssl_ssl table;
	static bool loaded;
	bool usable;

	pthread_mutex_lock(&lock);
	if (!loaded)
		loaded = library_load("libssl.so.3", "libssl3", ssl_symbols, &table, r) == 0;
	usable = loaded;
	pthread_mutex_unlock(&lock);
	return usable ? &table : NULL;
}
