/* openssl.c: the tables of OpenSSL's functions. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/crypto/openssl.h"
#include "engine/library.h"

static const struct library_symbol crypto_symbols[] = {
    {"ASN1_INTEGER_free", offsetof(struct openssl_crypto, ASN1_INTEGER_free)},
    {"ASN1_STRING_free", offsetof(struct openssl_crypto, ASN1_STRING_free)},
    {"ASN1_STRING_get0_data", offsetof(struct openssl_crypto, ASN1_STRING_get0_data)},
    {"ASN1_STRING_length", offsetof(struct openssl_crypto, ASN1_STRING_length)},
    {"ASN1_STRING_set", offsetof(struct openssl_crypto, ASN1_STRING_set)},
    {"ASN1_STRING_type_new", offsetof(struct openssl_crypto, ASN1_STRING_type_new)},
    {"ASN1_TIME_diff", offsetof(struct openssl_crypto, ASN1_TIME_diff)},
    {"ASN1_TIME_free", offsetof(struct openssl_crypto, ASN1_TIME_free)},
    {"ASN1_TIME_set", offsetof(struct openssl_crypto, ASN1_TIME_set)},
    {"ASN1_TIME_to_tm", offsetof(struct openssl_crypto, ASN1_TIME_to_tm)},
    {"BIO_free", offsetof(struct openssl_crypto, BIO_free)},
    {"BIO_new", offsetof(struct openssl_crypto, BIO_new)},
    {"BIO_read", offsetof(struct openssl_crypto, BIO_read)},
    {"BIO_s_mem", offsetof(struct openssl_crypto, BIO_s_mem)},
    {"BN_bin2bn", offsetof(struct openssl_crypto, BN_bin2bn)},
    {"BN_free", offsetof(struct openssl_crypto, BN_free)},
    {"BN_to_ASN1_INTEGER", offsetof(struct openssl_crypto, BN_to_ASN1_INTEGER)},
    {"CRYPTO_clear_free", offsetof(struct openssl_crypto, CRYPTO_clear_free)},
    {"ERR_clear_error", offsetof(struct openssl_crypto, ERR_clear_error)},
    {"ERR_peek_last_error", offsetof(struct openssl_crypto, ERR_peek_last_error)},
    {"ERR_reason_error_string", offsetof(struct openssl_crypto, ERR_reason_error_string)},
    {"EVP_PKEY2PKCS8", offsetof(struct openssl_crypto, EVP_PKEY2PKCS8)},
    {"EVP_PKEY_Q_keygen", offsetof(struct openssl_crypto, EVP_PKEY_Q_keygen)},
    {"EVP_PKEY_eq", offsetof(struct openssl_crypto, EVP_PKEY_eq)},
    {"EVP_PKEY_free", offsetof(struct openssl_crypto, EVP_PKEY_free)},
    {"EVP_PKEY_get_base_id", offsetof(struct openssl_crypto, EVP_PKEY_get_base_id)},
    {"EVP_PKEY_get_bits", offsetof(struct openssl_crypto, EVP_PKEY_get_bits)},
    {"EVP_PKEY_get_group_name", offsetof(struct openssl_crypto, EVP_PKEY_get_group_name)},
    {"EVP_PKEY_get_int_param", offsetof(struct openssl_crypto, EVP_PKEY_get_int_param)},
    {"EVP_sha1", offsetof(struct openssl_crypto, EVP_sha1)},
    {"EVP_sha256", offsetof(struct openssl_crypto, EVP_sha256)},
    {"GENERAL_NAMES_free", offsetof(struct openssl_crypto, GENERAL_NAMES_free)},
    {"GENERAL_NAMES_new", offsetof(struct openssl_crypto, GENERAL_NAMES_new)},
    {"GENERAL_NAME_free", offsetof(struct openssl_crypto, GENERAL_NAME_free)},
    {"GENERAL_NAME_new", offsetof(struct openssl_crypto, GENERAL_NAME_new)},
    {"GENERAL_NAME_set0_value", offsetof(struct openssl_crypto, GENERAL_NAME_set0_value)},
    {"HMAC", offsetof(struct openssl_crypto, HMAC)},
    {"OPENSSL_sk_free", offsetof(struct openssl_crypto, OPENSSL_sk_free)},
    {"OPENSSL_sk_new_null", offsetof(struct openssl_crypto, OPENSSL_sk_new_null)},
    {"OPENSSL_sk_num", offsetof(struct openssl_crypto, OPENSSL_sk_num)},
    {"OPENSSL_sk_pop_free", offsetof(struct openssl_crypto, OPENSSL_sk_pop_free)},
    {"OPENSSL_sk_push", offsetof(struct openssl_crypto, OPENSSL_sk_push)},
    {"OPENSSL_sk_value", offsetof(struct openssl_crypto, OPENSSL_sk_value)},
    {"OpenSSL_version", offsetof(struct openssl_crypto, OpenSSL_version)},
    {"PKCS8_PRIV_KEY_INFO_free", offsetof(struct openssl_crypto, PKCS8_PRIV_KEY_INFO_free)},
    {"X509V3_EXT_conf_nid", offsetof(struct openssl_crypto, X509V3_EXT_conf_nid)},
    {"X509V3_add1_i2d", offsetof(struct openssl_crypto, X509V3_add1_i2d)},
    {"X509V3_get_d2i", offsetof(struct openssl_crypto, X509V3_get_d2i)},
    {"X509V3_set_ctx", offsetof(struct openssl_crypto, X509V3_set_ctx)},
    {"X509_EXTENSION_free", offsetof(struct openssl_crypto, X509_EXTENSION_free)},
    {"X509_NAME_add_entry_by_txt", offsetof(struct openssl_crypto, X509_NAME_add_entry_by_txt)},
    {"X509_NAME_print_ex", offsetof(struct openssl_crypto, X509_NAME_print_ex)},
    {"X509_REQ_add_extensions", offsetof(struct openssl_crypto, X509_REQ_add_extensions)},
    {"X509_REQ_free", offsetof(struct openssl_crypto, X509_REQ_free)},
    {"X509_REQ_get0_pubkey", offsetof(struct openssl_crypto, X509_REQ_get0_pubkey)},
    {"X509_REQ_get_extensions", offsetof(struct openssl_crypto, X509_REQ_get_extensions)},
    {"X509_REQ_new", offsetof(struct openssl_crypto, X509_REQ_new)},
    {"X509_REQ_set_pubkey", offsetof(struct openssl_crypto, X509_REQ_set_pubkey)},
    {"X509_REQ_set_version", offsetof(struct openssl_crypto, X509_REQ_set_version)},
    {"X509_REQ_sign", offsetof(struct openssl_crypto, X509_REQ_sign)},
    {"X509_REQ_verify", offsetof(struct openssl_crypto, X509_REQ_verify)},
    {"X509_STORE_CTX_get0_cert", offsetof(struct openssl_crypto, X509_STORE_CTX_get0_cert)},
    {"X509_STORE_CTX_get0_param", offsetof(struct openssl_crypto, X509_STORE_CTX_get0_param)},
    {"X509_STORE_CTX_get0_untrusted",
	offsetof(struct openssl_crypto, X509_STORE_CTX_get0_untrusted)},
    {"X509_STORE_CTX_set0_trusted_stack",
	offsetof(struct openssl_crypto, X509_STORE_CTX_set0_trusted_stack)},
    {"X509_STORE_CTX_set_error", offsetof(struct openssl_crypto, X509_STORE_CTX_set_error)},
    {"X509_VERIFY_PARAM_clear_flags",
	offsetof(struct openssl_crypto, X509_VERIFY_PARAM_clear_flags)},
    {"X509_VERIFY_PARAM_set1_host", offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set1_host)},
    {"X509_VERIFY_PARAM_set1_ip_asc",
	offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set1_ip_asc)},
    {"X509_VERIFY_PARAM_set_auth_level",
	offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set_auth_level)},
    {"X509_VERIFY_PARAM_set_flags", offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set_flags)},
    {"X509_VERIFY_PARAM_set_hostflags",
	offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set_hostflags)},
    {"X509_VERIFY_PARAM_set_time", offsetof(struct openssl_crypto, X509_VERIFY_PARAM_set_time)},
    {"X509_add1_ext_i2d", offsetof(struct openssl_crypto, X509_add1_ext_i2d)},
    {"X509_add_ext", offsetof(struct openssl_crypto, X509_add_ext)},
    {"X509_check_issued", offsetof(struct openssl_crypto, X509_check_issued)},
    {"X509_check_purpose", offsetof(struct openssl_crypto, X509_check_purpose)},
    {"X509_free", offsetof(struct openssl_crypto, X509_free)},
    {"X509_get0_notAfter", offsetof(struct openssl_crypto, X509_get0_notAfter)},
    {"X509_get0_notBefore", offsetof(struct openssl_crypto, X509_get0_notBefore)},
    {"X509_get0_pubkey", offsetof(struct openssl_crypto, X509_get0_pubkey)},
    {"X509_get_ext_count", offsetof(struct openssl_crypto, X509_get_ext_count)},
    {"X509_get_ext_d2i", offsetof(struct openssl_crypto, X509_get_ext_d2i)},
    {"X509_get_extension_flags", offsetof(struct openssl_crypto, X509_get_extension_flags)},
    {"X509_get_issuer_name", offsetof(struct openssl_crypto, X509_get_issuer_name)},
    {"X509_get_subject_name", offsetof(struct openssl_crypto, X509_get_subject_name)},
    {"X509_get_version", offsetof(struct openssl_crypto, X509_get_version)},
    {"X509_new", offsetof(struct openssl_crypto, X509_new)},
    {"X509_set1_notAfter", offsetof(struct openssl_crypto, X509_set1_notAfter)},
    {"X509_set1_notBefore", offsetof(struct openssl_crypto, X509_set1_notBefore)},
    {"X509_set_issuer_name", offsetof(struct openssl_crypto, X509_set_issuer_name)},
    {"X509_set_pubkey", offsetof(struct openssl_crypto, X509_set_pubkey)},
    {"X509_set_serialNumber", offsetof(struct openssl_crypto, X509_set_serialNumber)},
    {"X509_set_version", offsetof(struct openssl_crypto, X509_set_version)},
    {"X509_sign", offsetof(struct openssl_crypto, X509_sign)},
    {"X509_verify", offsetof(struct openssl_crypto, X509_verify)},
    {"X509_verify_cert", offsetof(struct openssl_crypto, X509_verify_cert)},
    {"X509_verify_cert_error_string",
	offsetof(struct openssl_crypto, X509_verify_cert_error_string)},
    {"d2i_AutoPrivateKey", offsetof(struct openssl_crypto, d2i_AutoPrivateKey)},
    {"d2i_PUBKEY", offsetof(struct openssl_crypto, d2i_PUBKEY)},
    {"d2i_X509", offsetof(struct openssl_crypto, d2i_X509)},
    {"d2i_X509_REQ", offsetof(struct openssl_crypto, d2i_X509_REQ)},
    {"i2d_PKCS8_PRIV_KEY_INFO", offsetof(struct openssl_crypto, i2d_PKCS8_PRIV_KEY_INFO)},
    {"i2d_PUBKEY", offsetof(struct openssl_crypto, i2d_PUBKEY)},
    {"i2d_X509", offsetof(struct openssl_crypto, i2d_X509)},
    {"i2d_X509_REQ", offsetof(struct openssl_crypto, i2d_X509_REQ)},
    {NULL, 0},
};

static const struct library_symbol ssl_symbols[] = {
    {"SSL_CTX_add_client_CA", offsetof(struct openssl_ssl, SSL_CTX_add_client_CA)},
    {"SSL_CTX_check_private_key", offsetof(struct openssl_ssl, SSL_CTX_check_private_key)},
    {"SSL_CTX_ctrl", offsetof(struct openssl_ssl, SSL_CTX_ctrl)},
    {"SSL_CTX_free", offsetof(struct openssl_ssl, SSL_CTX_free)},
    {"SSL_CTX_get0_param", offsetof(struct openssl_ssl, SSL_CTX_get0_param)},
    {"SSL_CTX_load_verify_locations", offsetof(struct openssl_ssl, SSL_CTX_load_verify_locations)},
    {"SSL_CTX_new", offsetof(struct openssl_ssl, SSL_CTX_new)},
    {"SSL_CTX_set_alpn_protos", offsetof(struct openssl_ssl, SSL_CTX_set_alpn_protos)},
    {"SSL_CTX_set_alpn_select_cb", offsetof(struct openssl_ssl, SSL_CTX_set_alpn_select_cb)},
    {"SSL_CTX_set_cert_verify_callback",
	offsetof(struct openssl_ssl, SSL_CTX_set_cert_verify_callback)},
    {"SSL_CTX_set_cipher_list", offsetof(struct openssl_ssl, SSL_CTX_set_cipher_list)},
    {"SSL_CTX_set_default_verify_paths",
	offsetof(struct openssl_ssl, SSL_CTX_set_default_verify_paths)},
    {"SSL_CTX_set_num_tickets", offsetof(struct openssl_ssl, SSL_CTX_set_num_tickets)},
    {"SSL_CTX_set_options", offsetof(struct openssl_ssl, SSL_CTX_set_options)},
    {"SSL_CTX_set_security_level", offsetof(struct openssl_ssl, SSL_CTX_set_security_level)},
    {"SSL_CTX_set_verify", offsetof(struct openssl_ssl, SSL_CTX_set_verify)},
    {"SSL_CTX_set_verify_depth", offsetof(struct openssl_ssl, SSL_CTX_set_verify_depth)},
    {"SSL_CTX_use_PrivateKey", offsetof(struct openssl_ssl, SSL_CTX_use_PrivateKey)},
    {"SSL_CTX_use_certificate", offsetof(struct openssl_ssl, SSL_CTX_use_certificate)},
    {"SSL_connect", offsetof(struct openssl_ssl, SSL_connect)},
    {"SSL_ctrl", offsetof(struct openssl_ssl, SSL_ctrl)},
    {"SSL_do_handshake", offsetof(struct openssl_ssl, SSL_do_handshake)},
    {"SSL_free", offsetof(struct openssl_ssl, SSL_free)},
    {"SSL_get0_param", offsetof(struct openssl_ssl, SSL_get0_param)},
    {"SSL_get0_verified_chain", offsetof(struct openssl_ssl, SSL_get0_verified_chain)},
    {"SSL_get1_peer_certificate", offsetof(struct openssl_ssl, SSL_get1_peer_certificate)},
    {"SSL_get_error", offsetof(struct openssl_ssl, SSL_get_error)},
    {"SSL_get_verify_result", offsetof(struct openssl_ssl, SSL_get_verify_result)},
    {"SSL_get_version", offsetof(struct openssl_ssl, SSL_get_version)},
    {"SSL_new", offsetof(struct openssl_ssl, SSL_new)},
    {"SSL_read", offsetof(struct openssl_ssl, SSL_read)},
    {"SSL_set_accept_state", offsetof(struct openssl_ssl, SSL_set_accept_state)},
    {"SSL_set_connect_state", offsetof(struct openssl_ssl, SSL_set_connect_state)},
    {"SSL_set_fd", offsetof(struct openssl_ssl, SSL_set_fd)},
    {"SSL_shutdown", offsetof(struct openssl_ssl, SSL_shutdown)},
    {"SSL_write", offsetof(struct openssl_ssl, SSL_write)},
    {"TLS_client_method", offsetof(struct openssl_ssl, TLS_client_method)},
    {"TLS_server_method", offsetof(struct openssl_ssl, TLS_server_method)},
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
