/* openssl.h: what we use of OpenSSL, loaded at first use. */
#ifndef ENGINE_CRYPTO_OPENSSL_H
#define ENGINE_CRYPTO_OPENSSL_H

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "engine/refusal.h"

/* libcrypto: a MAC that sodium lacks, and certificates. Members bear the names of the functions. */
struct openssl_crypto {
	typeof(&ASN1_STRING_get0_data) ASN1_STRING_get0_data;
	typeof(&ASN1_STRING_length) ASN1_STRING_length;
	typeof(&ASN1_TIME_diff) ASN1_TIME_diff;
	typeof(&ASN1_TIME_to_tm) ASN1_TIME_to_tm;
	typeof(&BIO_free) BIO_free;
	typeof(&BIO_new) BIO_new;
	typeof(&BIO_read) BIO_read;
	typeof(&BIO_s_mem) BIO_s_mem;
	typeof(&ERR_clear_error) ERR_clear_error;
	typeof(&EVP_sha1) EVP_sha1;
	typeof(&GENERAL_NAMES_free) GENERAL_NAMES_free;
	typeof(&HMAC) HMAC;
	typeof(&OPENSSL_sk_num) OPENSSL_sk_num;
	typeof(&OPENSSL_sk_value) OPENSSL_sk_value;
	typeof(&OpenSSL_version) OpenSSL_version;
	typeof(&X509_NAME_print_ex) X509_NAME_print_ex;
	typeof(&X509_VERIFY_PARAM_set1_host) X509_VERIFY_PARAM_set1_host;
	typeof(&X509_VERIFY_PARAM_set1_ip_asc) X509_VERIFY_PARAM_set1_ip_asc;
	typeof(&X509_VERIFY_PARAM_set_auth_level) X509_VERIFY_PARAM_set_auth_level;
	typeof(&X509_free) X509_free;
	typeof(&X509_get0_notAfter) X509_get0_notAfter;
	typeof(&X509_get0_notBefore) X509_get0_notBefore;
	typeof(&X509_get_ext_d2i) X509_get_ext_d2i;
	typeof(&X509_get_issuer_name) X509_get_issuer_name;
	typeof(&X509_get_subject_name) X509_get_subject_name;
	typeof(&X509_verify_cert_error_string) X509_verify_cert_error_string;
};

/* libssl: handshakes. */
struct openssl_ssl {
	typeof(&SSL_CTX_ctrl) SSL_CTX_ctrl;
	typeof(&SSL_CTX_free) SSL_CTX_free;
	typeof(&SSL_CTX_get0_param) SSL_CTX_get0_param;
	typeof(&SSL_CTX_load_verify_locations) SSL_CTX_load_verify_locations;
	typeof(&SSL_CTX_new) SSL_CTX_new;
	typeof(&SSL_CTX_set_cipher_list) SSL_CTX_set_cipher_list;
	typeof(&SSL_CTX_set_default_verify_paths) SSL_CTX_set_default_verify_paths;
	typeof(&SSL_CTX_set_options) SSL_CTX_set_options;
	typeof(&SSL_CTX_set_security_level) SSL_CTX_set_security_level;
	typeof(&SSL_CTX_set_verify) SSL_CTX_set_verify;
	typeof(&SSL_connect) SSL_connect;
	typeof(&SSL_ctrl) SSL_ctrl;
	typeof(&SSL_free) SSL_free;
	typeof(&SSL_get0_param) SSL_get0_param;
	typeof(&SSL_get1_peer_certificate) SSL_get1_peer_certificate;
	typeof(&SSL_get_error) SSL_get_error;
	typeof(&SSL_get_verify_result) SSL_get_verify_result;
	typeof(&SSL_get_version) SSL_get_version;
	typeof(&SSL_new) SSL_new;
	typeof(&SSL_set_fd) SSL_set_fd;
	typeof(&TLS_client_method) TLS_client_method;
};

/**
 * openssl_crypto(r), openssl_ssl(r):
 * Return the functions of the library, the same at each call; or NULL with ${r} library.missing.
 */
const struct openssl_crypto *openssl_crypto(struct refusal *r);
const struct openssl_ssl *openssl_ssl(struct refusal *r);

#endif
