// Certificates for tests, and files with them.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>
#include <string>

namespace stoker {

// Of what OpenSSL gives, which it frees.
template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using TestCertificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using TestKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;

// A certificate with its key, in both forms.
struct Identity {
  TestCertificate certificate;
  TestKey key;

  std::string CertificatePem() const {
    return Pem([this](BIO* bio) {
      return PEM_write_bio_X509(bio, certificate.get());
    });
  }
  std::string KeyPem() const {
    return Pem([this](BIO* bio) {
      return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0,
                                      nullptr, nullptr);
    });
  }

 private:
  template <typename Write>
  static std::string Pem(Write write) {
    const std::unique_ptr<BIO, FreeWith<BIO_free>> bio(BIO_new(BIO_s_mem()));
    EXPECT_EQ(write(bio.get()), 1);
    char* text = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &text);
    return std::string(text, static_cast<size_t>(size));
  }
};

// Signs certificates.
class TestAuthority {
 public:
  TestAuthority() : own_(Make("authority", "", 1, nullptr)) {}

  // `names`: "DNS:a,URI:spiffe://b"; empty: none. It ends in so many days.
  Identity Sign(const std::string& names, int days = 2) const {
    return Make("someone", names, days, &own_);
  }
  std::string Pem() const { return own_.CertificatePem(); }
  X509* certificate() const { return own_.certificate.get(); }

 private:
  static Identity Make(const char* subject, const std::string& names, int days,
                       const Identity* issuer) {
    Identity made;
    made.key.reset(EVP_EC_gen("P-256"));
    made.certificate.reset(X509_new());
    X509* const x509 = made.certificate.get();
    X509_set_version(x509, X509_VERSION_3);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(x509), ++serial);
    constexpr long kDay = 86'400;
    X509_gmtime_adj(X509_getm_notBefore(x509), -4 * kDay);
    X509_gmtime_adj(X509_getm_notAfter(x509), days * kDay);
    X509_set_pubkey(x509, made.key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(subject),
                               -1, -1, 0);
    const Identity& signer = issuer == nullptr ? made : *issuer;
    X509_set_issuer_name(x509, X509_get_subject_name(signer.certificate.get()));
    if (issuer == nullptr)
      Extend(x509, NID_basic_constraints, "critical,CA:TRUE");
    if (!names.empty()) Extend(x509, NID_subject_alt_name, names);
    EXPECT_GT(X509_sign(x509, signer.key.get(), EVP_sha256()), 0);
    return made;
  }
  static void Extend(X509* x509, int what, const std::string& value) {
    X509_EXTENSION* const extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    ASSERT_NE(extension, nullptr) << value;
    X509_add_ext(x509, extension, -1);
    X509_EXTENSION_free(extension);
  }

  Identity own_;
};

// The files of a server's certificate and of its clients' authority, in a
// folder of the test's own.
class CertificateFiles {
 public:
  explicit CertificateFiles(const std::string& folder)
      : certificate(folder + "/server.pem"),
        key(folder + "/server.key"),
        client_ca(folder + "/clients.pem") {}

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  void Use(const Identity& server) const {
    Write(certificate, server.CertificatePem());
    Write(key, server.KeyPem());
  }

  const std::string certificate, key, client_ca;
};

}  // namespace stoker
