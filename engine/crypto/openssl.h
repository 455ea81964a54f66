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
	typeof(&ASN1_INTEGER_free) ASN1_INTEGER_free;
	typeof(&ASN1_STRING_free) ASN1_STRING_free;
	typeof(&ASN1_STRING_get0_data) ASN1_STRING_get0_data;
	typeof(&ASN1_STRING_length) ASN1_STRING_length;
	typeof(&ASN1_STRING_set) ASN1_STRING_set;
	typeof(&ASN1_STRING_type_new) ASN1_STRING_type_new;
	typeof(&ASN1_TIME_diff) ASN1_TIME_diff;
	typeof(&ASN1_TIME_free) ASN1_TIME_free;
	typeof(&ASN1_TIME_set) ASN1_TIME_set;
	typeof(&ASN1_TIME_to_tm) ASN1_TIME_to_tm;
	typeof(&BIO_free) BIO_free;
	typeof(&BIO_new) BIO_new;
	typeof(&BIO_read) BIO_read;
	typeof(&BIO_s_mem) BIO_s_mem;
	typeof(&BN_bin2bn) BN_bin2bn;
	typeof(&BN_free) BN_free;
	typeof(&BN_to_ASN1_INTEGER) BN_to_ASN1_INTEGER;
	typeof(&CRYPTO_clear_free) CRYPTO_clear_free;
	typeof(&ERR_clear_error) ERR_clear_error;
	typeof(&ERR_peek_last_error) ERR_peek_last_error;
	typeof(&ERR_reason_error_string) ERR_reason_error_string;
	typeof(&EVP_PKEY2PKCS8) EVP_PKEY2PKCS8;
	typeof(&EVP_PKEY_Q_keygen) EVP_PKEY_Q_keygen;
	typeof(&EVP_PKEY_eq) EVP_PKEY_eq;
	typeof(&EVP_PKEY_free) EVP_PKEY_free;
	typeof(&EVP_PKEY_get_base_id) EVP_PKEY_get_base_id;
	typeof(&EVP_PKEY_get_bits) EVP_PKEY_get_bits;
	typeof(&EVP_PKEY_get_group_name) EVP_PKEY_get_group_name;
	typeof(&EVP_PKEY_get_int_param) EVP_PKEY_get_int_param;
	typeof(&EVP_sha1) EVP_sha1;
	typeof(&EVP_sha256) EVP_sha256;
	typeof(&GENERAL_NAMES_free) GENERAL_NAMES_free;
	typeof(&GENERAL_NAMES_new) GENERAL_NAMES_new;
	typeof(&GENERAL_NAME_free) GENERAL_NAME_free;
	typeof(&GENERAL_NAME_new) GENERAL_NAME_new;
	typeof(&GENERAL_NAME_set0_value) GENERAL_NAME_set0_value;
	typeof(&HMAC) HMAC;
	typeof(&OPENSSL_sk_free) OPENSSL_sk_free;
	typeof(&OPENSSL_sk_new_null) OPENSSL_sk_new_null;
	typeof(&OPENSSL_sk_num) OPENSSL_sk_num;
	typeof(&OPENSSL_sk_pop_free) OPENSSL_sk_pop_free;
	typeof(&OPENSSL_sk_push) OPENSSL_sk_push;
	typeof(&OPENSSL_sk_value) OPENSSL_sk_value;
	typeof(&OpenSSL_version) OpenSSL_version;
	typeof(&PKCS8_PRIV_KEY_INFO_free) PKCS8_PRIV_KEY_INFO_free;
	typeof(&X509V3_EXT_conf_nid) X509V3_EXT_conf_nid;
	typeof(&X509V3_add1_i2d) X509V3_add1_i2d;
	typeof(&X509V3_get_d2i) X509V3_get_d2i;
	typeof(&X509V3_set_ctx) X509V3_set_ctx;
	typeof(&X509_EXTENSION_free) X509_EXTENSION_free;
	typeof(&X509_NAME_add_entry_by_txt) X509_NAME_add_entry_by_txt;
	typeof(&X509_NAME_print_ex) X509_NAME_print_ex;
	typeof(&X509_REQ_add_extensions) X509_REQ_add_extensions;
	typeof(&X509_REQ_free) X509_REQ_free;
	typeof(&X509_REQ_get0_pubkey) X509_REQ_get0_pubkey;
	typeof(&X509_REQ_get_extensions) X509_REQ_get_extensions;
	typeof(&X509_REQ_new) X509_REQ_new;
	typeof(&X509_REQ_set_pubkey) X509_REQ_set_pubkey;
	typeof(&X509_REQ_set_version) X509_REQ_set_version;
	typeof(&X509_REQ_sign) X509_REQ_sign;
	typeof(&X509_REQ_verify) X509_REQ_verify;
	typeof(&X509_STORE_CTX_get0_cert) X509_STORE_CTX_get0_cert;
	typeof(&X509_STORE_CTX_get0_param) X509_STORE_CTX_get0_param;
	typeof(&X509_STORE_CTX_get0_untrusted) X509_STORE_CTX_get0_untrusted;
	typeof(&X509_STORE_CTX_set0_trusted_stack) X509_STORE_CTX_set0_trusted_stack;
	typeof(&X509_STORE_CTX_set_error) X509_STORE_CTX_set_error;
	typeof(&X509_VERIFY_PARAM_clear_flags) X509_VERIFY_PARAM_clear_flags;
	typeof(&X509_VERIFY_PARAM_set1_host) X509_VERIFY_PARAM_set1_host;
	typeof(&X509_VERIFY_PARAM_set1_ip_asc) X509_VERIFY_PARAM_set1_ip_asc;
	typeof(&X509_VERIFY_PARAM_set_auth_level) X509_VERIFY_PARAM_set_auth_level;
	typeof(&X509_VERIFY_PARAM_set_flags) X509_VERIFY_PARAM_set_flags;
	typeof(&X509_VERIFY_PARAM_set_hostflags) X509_VERIFY_PARAM_set_hostflags;
	typeof(&X509_VERIFY_PARAM_set_time) X509_VERIFY_PARAM_set_time;
	typeof(&X509_add1_ext_i2d) X509_add1_ext_i2d;
	typeof(&X509_add_ext) X509_add_ext;
	typeof(&X509_check_issued) X509_check_issued;
	typeof(&X509_check_purpose) X509_check_purpose;
	typeof(&X509_free) X509_free;
	typeof(&X509_get0_notAfter) X509_get0_notAfter;
	typeof(&X509_get0_notBefore) X509_get0_notBefore;
	typeof(&X509_get0_pubkey) X509_get0_pubkey;
	typeof(&X509_get_ext_count) X509_get_ext_count;
	typeof(&X509_get_ext_d2i) X509_get_ext_d2i;
	typeof(&X509_get_extension_flags) X509_get_extension_flags;
	typeof(&X509_get_issuer_name) X509_get_issuer_name;
	typeof(&X509_get_subject_name) X509_get_subject_name;
	typeof(&X509_get_version) X509_get_version;
	typeof(&X509_new) X509_new;
	typeof(&X509_set1_notAfter) X509_set1_notAfter;
	typeof(&X509_set1_notBefore) X509_set1_notBefore;
	typeof(&X509_set_issuer_name) X509_set_issuer_name;
	typeof(&X509_set_pubkey) X509_set_pubkey;
	typeof(&X509_set_serialNumber) X509_set_serialNumber;
	typeof(&X509_set_version) X509_set_version;
	typeof(&X509_sign) X509_sign;
	typeof(&X509_verify) X509_verify;
	typeof(&X509_verify_cert) X509_verify_cert;
	typeof(&X509_verify_cert_error_string) X509_verify_cert_error_string;
	typeof(&d2i_AutoPrivateKey) d2i_AutoPrivateKey;
	typeof(&d2i_PUBKEY) d2i_PUBKEY;
	typeof(&d2i_X509) d2i_X509;
	typeof(&d2i_X509_REQ) d2i_X509_REQ;
	typeof(&i2d_PKCS8_PRIV_KEY_INFO) i2d_PKCS8_PRIV_KEY_INFO;
	typeof(&i2d_PUBKEY) i2d_PUBKEY;
	typeof(&i2d_X509) i2d_X509;
	typeof(&i2d_X509_REQ) i2d_X509_REQ;
};

/* libssl: handshakes. */
struct openssl_ssl {
	typeof(&SSL_CTX_add_client_CA) SSL_CTX_add_client_CA;
	typeof(&SSL_CTX_check_private_key) SSL_CTX_check_private_key;
	typeof(&SSL_CTX_ctrl) SSL_CTX_ctrl;
	typeof(&SSL_CTX_free) SSL_CTX_free;
	typeof(&SSL_CTX_get0_param) SSL_CTX_get0_param;
	typeof(&SSL_CTX_load_verify_locations) SSL_CTX_load_verify_locations;
	typeof(&SSL_CTX_new) SSL_CTX_new;
	typeof(&SSL_CTX_set_alpn_protos) SSL_CTX_set_alpn_protos;
	typeof(&SSL_CTX_set_alpn_select_cb) SSL_CTX_set_alpn_select_cb;
	typeof(&SSL_CTX_set_cert_verify_callback) SSL_CTX_set_cert_verify_callback;
	typeof(&SSL_CTX_set_cipher_list) SSL_CTX_set_cipher_list;
	typeof(&SSL_CTX_set_default_verify_paths) SSL_CTX_set_default_verify_paths;
	typeof(&SSL_CTX_set_num_tickets) SSL_CTX_set_num_tickets;
	typeof(&SSL_CTX_set_options) SSL_CTX_set_options;
	typeof(&SSL_CTX_set_security_level) SSL_CTX_set_security_level;
	typeof(&SSL_CTX_set_verify) SSL_CTX_set_verify;
	typeof(&SSL_CTX_set_verify_depth) SSL_CTX_set_verify_depth;
	typeof(&SSL_CTX_use_PrivateKey) SSL_CTX_use_PrivateKey;
	typeof(&SSL_CTX_use_certificate) SSL_CTX_use_certificate;
	typeof(&SSL_connect) SSL_connect;
	typeof(&SSL_ctrl) SSL_ctrl;
	typeof(&SSL_do_handshake) SSL_do_handshake;
	typeof(&SSL_free) SSL_free;
	typeof(&SSL_get0_param) SSL_get0_param;
	typeof(&SSL_get0_verified_chain) SSL_get0_verified_chain;
	typeof(&SSL_get1_peer_certificate) SSL_get1_peer_certificate;
	typeof(&SSL_get_error) SSL_get_error;
	typeof(&SSL_get_verify_result) SSL_get_verify_result;
	typeof(&SSL_get_version) SSL_get_version;
	typeof(&SSL_new) SSL_new;
	typeof(&SSL_read) SSL_read;
	typeof(&SSL_set_accept_state) SSL_set_accept_state;
	typeof(&SSL_set_connect_state) SSL_set_connect_state;
	typeof(&SSL_set_fd) SSL_set_fd;
	typeof(&SSL_shutdown) SSL_shutdown;
	typeof(&SSL_write) SSL_write;
	typeof(&TLS_client_method) TLS_client_method;
	typeof(&TLS_server_method) TLS_server_method;
};

/**
 * openssl_crypto(r), openssl_ssl(r):
 * Return the functions of the library, the same at each call; or NULL with ${r} library.missing.
 */
const struct openssl_crypto *openssl_crypto(struct refusal *r);
const struct openssl_ssl *openssl_ssl(struct refusal *r);

#endif
