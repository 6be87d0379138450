#include "transport/certificates.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <stdexcept>

#include "transport/openssl_handles.hpp"

namespace stagecraft {

namespace {

constexpr std::chrono::hours leeway{1};
constexpr std::size_t longest_name = 64;  // RFC 5280, ub-common-name

// Never leaves this file.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string last_openssl_error() {
  const auto code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "out of memory" : reason;
}

void expect(bool fine, const char* doing) {
  if (!fine) throw Failure(fmt::format("OpenSSL can't {}: {}", doing, last_openssl_error()));
}

template <class Work>
CredentialsResult without_exceptions(Work work) {
  try {
    return work();
  } catch (const Failure& e) {
    return std::string(e.what());
  }
}

std::time_t seconds(CalendarTime time) { return time.time_since_epoch().count(); }

CalendarTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  expect(ASN1_TIME_to_tm(time, &parts) == 1, "read a date");
  return CalendarTime(std::chrono::seconds(timegm(&parts)));
}

std::string common_name(const X509* certificate) {
  std::array<char, longest_name + 1> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
  return name.data();
}

// ---- PEM

BioRef reader(const std::string& text) {
  BioRef bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  expect(bio != nullptr, "read a text");
  return bio;
}

// A key that needs a passphrase is refused: nobody could be asked for it.
int no_passphrase(char*, int, int, void*) { return -1; }

X509Ref read_certificate(const std::string& pem) {
  X509Ref certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return certificate;
}

KeyRef read_key(const std::string& pem) {
  KeyRef key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return key;
}

template <class Write>
std::string written(Write write) {
  const BioRef bio(BIO_new(BIO_s_mem()));
  expect(bio != nullptr && write(bio.get()) == 1, "write PEM");
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

Credentials to_pem(X509* certificate, EVP_PKEY* key) {
  return {written([&](BIO* to) { return PEM_write_bio_X509(to, certificate); }), written([&](BIO* to) {
            return PEM_write_bio_PKCS8PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

// ---- making

KeyRef make_key() {
  KeyRef key(EVP_EC_gen("P-256"));
  expect(key != nullptr, "make a key");
  return key;
}

void set_random_serial(X509* certificate) {
  const NumberRef number(BN_new());
  expect(number && BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1, "draw a serial number");
  expect(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr, "set a serial number");
}

void set_subject(X509* certificate, const std::string& name) {
  if (name.empty() || name.size() > longest_name)
    throw Failure(
        fmt::format("the name '{}' has {} bytes, where a certificate takes 1 to {}", name, name.size(), longest_name));
  X509_NAME* subject = X509_get_subject_name(certificate);
  const auto add = [&](const char* field, const std::string& text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    expect(X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8, bytes, static_cast<int>(text.size()), -1, 0) == 1,
           "name the subject");
  };
  add("O", "stagecraft");
  add("CN", name);
}

void set_dates(X509* certificate, CalendarTime from, CalendarTime until) {
  expect(ASN1_TIME_set(X509_getm_notBefore(certificate), seconds(from)) != nullptr &&
             ASN1_TIME_set(X509_getm_notAfter(certificate), seconds(until)) != nullptr,
         "set the dates");
}

// `value` is ours, never from outside: its syntax could say anything.
void extend(X509* certificate, X509* issuer, int what, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionRef extension(X509V3_EXT_conf_nid(nullptr, &context, what, value));
  expect(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "add an extension");
}

NameRef alternative_name(const std::string& text) {
  NameRef name(GENERAL_NAME_new());
  expect(name != nullptr, "make a name");
  if (OctetsRef address{a2i_IPADDRESS(text.c_str())}) {
    GENERAL_NAME_set0_value(name.get(), GEN_IPADD, address.release());
    return name;
  }
  ERR_clear_error();
  StringRef host(ASN1_IA5STRING_new());
  expect(host && ASN1_STRING_set(host.get(), text.data(), static_cast<int>(text.size())) == 1, "make a name");
  GENERAL_NAME_set0_value(name.get(), GEN_DNS, host.release());
  return name;
}

void set_alternative_names(X509* certificate, const std::vector<std::string>& texts) {
  const NamesRef names(GENERAL_NAMES_new());
  expect(names != nullptr, "make names");
  for (const std::string& text : texts) {
    NameRef name = alternative_name(text);
    expect(sk_GENERAL_NAME_push(names.get(), name.get()) > 0, "add a name");
    static_cast<void>(name.release());  // the list's from here on
  }
  expect(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, 0) == 1, "add alternative names");
}

X509Ref begin_certificate(const std::string& name, EVP_PKEY* key, CalendarTime now, CalendarTime until) {
  X509Ref certificate(X509_new());
  expect(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1, "make a certificate");
  set_random_serial(certificate.get());
  set_subject(certificate.get(), name);
  set_dates(certificate.get(), now - leeway, until);
  expect(X509_set_pubkey(certificate.get(), key) == 1, "set the key");
  return certificate;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  expect(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1, "name the issuer");
  extend(certificate, issuer, NID_subject_key_identifier, "hash");
  extend(certificate, issuer, NID_authority_key_identifier, "keyid:always");
  expect(X509_sign(certificate, key, EVP_sha256()) > 0, "sign");
}

// ---- checking

// "the certificate of 'n0' ended on 2026-05-01 12:00 UTC, and it is 2026-05-02 12:00 UTC".
std::optional<std::string> date_problem(const X509* certificate, const std::string& whose, CalendarTime now) {
  const CalendarTime from = time_of(X509_get0_notBefore(certificate)), until = time_of(X509_get0_notAfter(certificate));
  if (now < from)
    return fmt::format("{} is valid from {} on, and it is {}: look at this machine's clock", whose, to_text(from),
                       to_text(now));
  if (now >= until)
    return fmt::format("{} expired on {}, and it is {}: make a new one", whose, to_text(until), to_text(now));
  return std::nullopt;
}

// Empty when the authority signed it.
std::optional<std::string> chain_problem(X509* authority, X509* certificate, CalendarTime now) {
  const StoreRef store(X509_STORE_new());
  const StoreContextRef context(X509_STORE_CTX_new());
  expect(store && context && X509_STORE_add_cert(store.get(), authority) == 1 &&
             X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) == 1,
         "verify");
  X509_STORE_CTX_set_time(context.get(), 0, seconds(now));
  const bool is_fine = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (is_fine) return std::nullopt;
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

std::optional<std::string> problem(const std::string& authority_pem, const std::string& certificate_pem,
                                   const std::string& key_pem, CalendarTime now) {
  const X509Ref authority = read_certificate(authority_pem), certificate = read_certificate(certificate_pem);
  if (!authority) return "what should be the authority's certificate is no PEM certificate";
  if (!certificate) return "what should be the node's certificate is no PEM certificate";
  const KeyRef key = read_key(key_pem);
  if (!key) return "what should be the node's key is no PEM private key without a passphrase";
  const std::string job = fmt::format("the authority '{}'", common_name(authority.get()));
  const std::string node = fmt::format("the certificate of '{}'", common_name(certificate.get()));
  if (X509_check_ca(authority.get()) == 0) return job + " is none: its certificate may not sign others";
  if (auto late = date_problem(authority.get(), job, now)) return late;
  if (auto late = date_problem(certificate.get(), node, now)) return late;
  if (const auto why = chain_problem(authority.get(), certificate.get(), now))
    return fmt::format("{} was not signed by {}: {}", node, job, *why);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return fmt::format("the key does not belong to {}", node);
  }
  return std::nullopt;
}

}  // namespace

CredentialsResult make_authority(const std::string& job, int days, CalendarTime now) {
  return without_exceptions([&] {
    const KeyRef key = make_key();
    const X509Ref certificate = begin_certificate(job, key.get(), now, now + std::chrono::days(days));
    extend(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    extend(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
    sign(certificate.get(), certificate.get(), key.get());
    return to_pem(certificate.get(), key.get());
  });
}

CredentialsResult make_node_certificate(const Credentials& authority, const std::string& node,
                                        const std::vector<std::string>& addresses, int days, CalendarTime now) {
  return without_exceptions([&] {
    const X509Ref issuer = read_certificate(authority.certificate);
    const KeyRef issuer_key = read_key(authority.key);
    if (!issuer) throw Failure("the authority's certificate is no PEM certificate");
    if (!issuer_key) throw Failure("the authority's key is no PEM private key without a passphrase");
    if (X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
      ERR_clear_error();
      throw Failure("the authority's key does not belong to its certificate");
    }
    if (const auto late = date_problem(issuer.get(), "the authority", now)) throw Failure(*late);

    const KeyRef key = make_key();
    const CalendarTime until =
        std::min<CalendarTime>(now + std::chrono::days(days), time_of(X509_get0_notAfter(issuer.get())));
    const X509Ref certificate = begin_certificate(node, key.get(), now, until);
    extend(certificate.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
    extend(certificate.get(), issuer.get(), NID_key_usage, "critical,digitalSignature");
    extend(certificate.get(), issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth");
    std::vector<std::string> names{node};
    for (const std::string& address : addresses)
      if (std::find(names.begin(), names.end(), address) == names.end()) names.push_back(address);
    set_alternative_names(certificate.get(), names);
    sign(certificate.get(), issuer.get(), issuer_key.get());
    return to_pem(certificate.get(), key.get());
  });
}

std::optional<std::string> check_certificates(const std::string& authority_certificate, const std::string& certificate,
                                              const std::string& key, CalendarTime now) {
  try {
    return problem(authority_certificate, certificate, key, now);
  } catch (const Failure& e) {
    return e.what();
  }
}

std::optional<CalendarTime> end_of_certificate(const std::string& certificate) {
  const X509Ref read = read_certificate(certificate);
  if (!read) return std::nullopt;
  return time_of(X509_get0_notAfter(read.get()));
}

std::string to_text(CalendarTime time) { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(seconds(time))); }

}  // namespace stagecraft
