#include "runtime/process/credentials.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/process/descriptor.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

struct free_by_openssl {
  void operator()(EVP_PKEY* x) const { ::EVP_PKEY_free(x); }
  void operator()(X509* x) const { ::X509_free(x); }
  void operator()(X509_EXTENSION* x) const { ::X509_EXTENSION_free(x); }
  void operator()(BIO* x) const { ::BIO_free(x); }
};
template <class T>
using owned = std::unique_ptr<T, free_by_openssl>;

void require(bool done, const char* what) {
  if (done)
    return;
  std::array<char, 256> text = {};
  ::ERR_error_string_n(::ERR_get_error(), text.data(), text.size());
  throw io_error("cannot make the credentials of a run ({}): {}", what, text.data());
}

owned<EVP_PKEY> new_key() {
  owned<EVP_PKEY> out(EVP_EC_gen("P-256"));
  require(out != nullptr, "a key");
  return out;
}

void extend(X509* what, X509* issuer, int name, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, what, nullptr, nullptr, 0);
  const owned<X509_EXTENSION> extension(::X509V3_EXT_conf_nid(nullptr, &context, name, value));
  require(extension != nullptr && ::X509_add_ext(what, extension.get(), -1) == 1, "an extension");
}

/// Self-signed without an issuer.
owned<X509> certificate_of(EVP_PKEY* key, const std::string& name, X509* issuer, EVP_PKEY* by) {
  constexpr long day = 86'400, valid = 3650 * day;
  constexpr int version_3 = 2, serial_bits = 127;
  owned<X509> out(::X509_new());
  require(out != nullptr, "a certificate");
  const std::unique_ptr<BIGNUM, void (*)(BIGNUM*)> serial(::BN_new(), ::BN_free);
  auto* const subject = ::X509_get_subject_name(out.get());
  require(::X509_set_version(out.get(), version_3) == 1
              && ::BN_rand(serial.get(), serial_bits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1
              && ::BN_to_ASN1_INTEGER(serial.get(), ::X509_get_serialNumber(out.get())) != nullptr
              && ::X509_gmtime_adj(::X509_getm_notBefore(out.get()), -day) != nullptr
              && ::X509_gmtime_adj(::X509_getm_notAfter(out.get()), valid) != nullptr
              && ::X509_set_pubkey(out.get(), key) == 1
              && ::X509_NAME_add_entry_by_txt(subject,
                                              "CN",
                                              MBSTRING_UTF8,
                                              reinterpret_cast<const unsigned char*>(name.c_str()),
                                              -1,
                                              -1,
                                              0)
                     == 1
              && ::X509_set_issuer_name(
                     out.get(), issuer == nullptr ? subject : ::X509_get_subject_name(issuer))
                     == 1,
          "a certificate");
  auto* const above = issuer == nullptr ? out.get() : issuer;
  if (issuer == nullptr) {
    extend(out.get(), above, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    extend(out.get(), above, NID_key_usage, "critical,keyCertSign");
  } else {
    extend(out.get(), above, NID_basic_constraints, "critical,CA:FALSE");
    extend(out.get(), above, NID_key_usage, "critical,digitalSignature");
    extend(out.get(), above, NID_ext_key_usage, "serverAuth,clientAuth");
  }
  require(::X509_sign(out.get(), by, ::EVP_sha256()) > 0, "a signature");
  return out;
}

template <class Write>
std::string pem(const Write& write) {
  const owned<BIO> to(::BIO_new(::BIO_s_mem()));
  require(to != nullptr && write(to.get()) == 1, "PEM");
  char* text = nullptr;
  const long size = BIO_get_mem_data(to.get(), &text);
  return {text, std::size_t(size)};
}

std::string pem_of(X509* x) {
  return pem([&](BIO* to) { return ::PEM_write_bio_X509(to, x); });
}

std::string pem_of(EVP_PKEY* x) {
  return pem([&](BIO* to) {
    return ::PEM_write_bio_PrivateKey(to, x, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string new_secret() {
  std::array<unsigned char, 32> bytes = {};
  require(::RAND_bytes(bytes.data(), int(bytes.size())) == 1, "a secret");
  std::string out;
  for (const auto byte : bytes)
    out += fmt::format("{:02x}", byte);
  return out;
}

void write_new(const fs::path& path, const std::string& text) {
  const descriptor file(::open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file || ::write(file.number(), text.data(), text.size()) != ssize_t(text.size()))
    throw io_error("cannot write '{}': {}", path.string(), system_message(errno));
}

void write_all(const fs::path& folder, const credentials& x) {
  const auto files = credential_files_in(folder);
  write_new(files.authority, x.authority);
  write_new(files.certificate, x.certificate);
  write_new(files.key, x.key);
  write_new(files.secret, x.secret);
}

void make_private_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw io_error("cannot make the folder '{}': {}", folder.string(), system_message(errno));
  struct stat about = {};
  if (::lstat(folder.c_str(), &about) != 0)
    throw io_error("cannot make the folder '{}': {}", folder.string(), system_message(errno));
  if (!S_ISDIR(about.st_mode) || about.st_uid != ::geteuid()
      || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw input_error(
        "cannot put credentials into '{}': it is not a folder, or others own it or may enter it "
        "(mode "
        "{:04o}); `chmod 700` it, or name a new one",
        folder.string(),
        about.st_mode & 07777);
}

std::string read_own(const fs::path& path) {
  constexpr std::size_t most = 65536;
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat about = {};
  if (!file || ::fstat(file.number(), &about) != 0)
    throw input_error("cannot read '{}': {}", path.string(), system_message(errno));
  if (!S_ISREG(about.st_mode) || about.st_uid != ::geteuid()
      || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw input_error(
        "'{}' may have been read or written by others than user {} (mode {:04o}): "
        "copy them with their modes (0600), or make new credentials",
        path.string(),
        ::geteuid(),
        about.st_mode & 07777);
  std::string out(most, '\0');
  const auto size = ::read(file.number(), out.data(), out.size());
  if (size < 0)
    throw io_error("cannot read '{}': {}", path.string(), system_message(errno));
  out.resize(std::size_t(size));
  return out;
}

}  // namespace

credential_files credential_files_in(const fs::path& folder) {
  return {.authority = folder / "authority.pem",
          .certificate = folder / "certificate.pem",
          .key = folder / "key.pem",
          .secret = folder / "secret"};
}

void make_credentials(const fs::path& folder,
                      const std::string& run_id,
                      const std::string& secret) {
  const auto authority_key = new_key(), key = new_key();
  const auto authority = certificate_of(
      authority_key.get(), "authority of troupe run " + run_id, nullptr, authority_key.get());
  const auto certificate = certificate_of(
      key.get(), "process of troupe run " + run_id, authority.get(), authority_key.get());
  write_credentials(folder,
                    {.authority = pem_of(authority.get()),
                     .certificate = pem_of(certificate.get()),
                     .key = pem_of(key.get()),
                     .secret = secret.empty() ? new_secret() : secret});
}

void copy_credentials(const fs::path& from, const fs::path& to) {
  write_credentials(to, read_credentials(from));
}

void write_credentials(const fs::path& folder, const credentials& x) {
  make_private_folder(folder);
  write_all(folder, x);
}

std::string text_of(const credentials& x) {
  return json_text(nlohmann::json({{"authority", x.authority},
                                   {"certificate", x.certificate},
                                   {"key", x.key},
                                   {"secret", x.secret}}));
}

credentials credentials_in(const std::string& text) {
  const std::string where = "the credentials on standard input";
  const auto all = parse_json(text, where, {.bytes = 65536, .depth = 2});
  return {.authority = string_member(all, "authority", where),
          .certificate = string_member(all, "certificate", where),
          .key = string_member(all, "key", where),
          .secret = string_member(all, "secret", where)};
}

credentials read_credentials(const fs::path& folder) {
  const auto files = credential_files_in(folder);
  return {.authority = read_own(files.authority),
          .certificate = read_own(files.certificate),
          .key = read_own(files.key),
          .secret = read_own(files.secret)};
}

}  // namespace troupe::runtime
