// OpenSSL's objects with owners. Thread promise: that of OpenSSL, one user per object.
#pragma once

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>

namespace stagecraft {

template <auto release>
struct Released {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};

using X509Ref = std::unique_ptr<X509, Released<X509_free>>;
using KeyRef = std::unique_ptr<EVP_PKEY, Released<EVP_PKEY_free>>;
using BioRef = std::unique_ptr<BIO, Released<BIO_free_all>>;
using NumberRef = std::unique_ptr<BIGNUM, Released<BN_free>>;
using ExtensionRef = std::unique_ptr<X509_EXTENSION, Released<X509_EXTENSION_free>>;
using NameRef = std::unique_ptr<GENERAL_NAME, Released<GENERAL_NAME_free>>;
using NamesRef = std::unique_ptr<GENERAL_NAMES, Released<GENERAL_NAMES_free>>;
using OctetsRef = std::unique_ptr<ASN1_OCTET_STRING, Released<ASN1_OCTET_STRING_free>>;
using StringRef = std::unique_ptr<ASN1_IA5STRING, Released<ASN1_IA5STRING_free>>;
using StoreRef = std::unique_ptr<X509_STORE, Released<X509_STORE_free>>;
using StoreContextRef = std::unique_ptr<X509_STORE_CTX, Released<X509_STORE_CTX_free>>;

}  // namespace stagecraft
