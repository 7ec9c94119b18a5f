#include "runtime/process/credentials.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory>
#include <openssl/ssl.h>
#include <sys/stat.h>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace fs = std::filesystem;

namespace {

struct free_tls {
  void operator()(SSL_CTX* x) const { ::SSL_CTX_free(x); }
  void operator()(SSL* x) const { ::SSL_free(x); }
};

/// One end of a connection, set up as by CAF's OpenSSL module: the peer must have a certificate.
struct tls_end {
  std::unique_ptr<SSL_CTX, free_tls> context{::SSL_CTX_new(::TLS_method())};
  std::unique_ptr<SSL, free_tls> end;

  /// An empty `own` path: no certificate.
  tls_end(bool server, const fs::path& trusted, const fs::path& own) {
    const auto theirs = credential_files_in(trusted), ours = credential_files_in(own);
    ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    REQUIRE(::SSL_CTX_load_verify_locations(context.get(), theirs.authority.c_str(), nullptr) == 1);
    if (!own.empty()) {
      REQUIRE(
          ::SSL_CTX_use_certificate_file(context.get(), ours.certificate.c_str(), SSL_FILETYPE_PEM)
          == 1);
      REQUIRE(::SSL_CTX_use_PrivateKey_file(context.get(), ours.key.c_str(), SSL_FILETYPE_PEM)
              == 1);
      REQUIRE(::SSL_CTX_check_private_key(context.get()) == 1);
    }
    end.reset(::SSL_new(context.get()));
    ::SSL_set_bio(end.get(), ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
    if (server)
      ::SSL_set_accept_state(end.get());
    else
      ::SSL_set_connect_state(end.get());
  }

  /// Delivers the pending bytes to the other end.
  void pass_to(tls_end& other) const {
    char bytes[16384];
    for (int size; (size = ::BIO_read(::SSL_get_wbio(end.get()), bytes, sizeof bytes)) > 0;)
      ::BIO_write(::SSL_get_rbio(other.end.get()), bytes, size);
  }
};

/// True if both ends complete the handshake and verify each other's certificate.
bool shake_hands(tls_end server, tls_end client) {
  constexpr int enough = 10;
  bool done[2] = {};
  for (int i = 0; i < enough; ++i) {
    const auto step = [](tls_end& x, bool& is_done) {
      const int answer = ::SSL_do_handshake(x.end.get());
      is_done = answer == 1;
      return is_done || ::SSL_get_error(x.end.get(), answer) == SSL_ERROR_WANT_READ;
    };
    if (!step(client, done[0]))
      return false;
    client.pass_to(server);
    if (!step(server, done[1]))
      return false;
    server.pass_to(client);
    if (done[0] && done[1])
      return ::SSL_get_verify_result(client.end.get()) == X509_V_OK
             && ::SSL_get_verify_result(server.end.get()) == X509_V_OK;
  }
  return false;
}

struct two_runs {
  scratch_folder above;
  fs::path a = above / "a", b = above / "b";
  two_runs() {
    make_credentials(a, "aaaaaaaaaaaaaaaa");
    make_credentials(b, "bbbbbbbbbbbbbbbb");
  }
};

}  // namespace

TEST_CASE("processes of a run verify each other by certificate, in both directions", "[process]") {
  const two_runs x;
  CHECK(shake_hands({true, x.a, x.a}, {false, x.a, x.a}));
  CHECK_FALSE(shake_hands({true, x.a, x.a}, {false, x.b, x.b}));
  CHECK_FALSE(shake_hands({true, x.a, x.a}, {false, x.a, x.b}));  // client of another run
  CHECK_FALSE(shake_hands({true, x.a, x.b}, {false, x.a, x.a}));  // server of another run
  CHECK_FALSE(shake_hands({true, x.a, x.a}, {false, x.a, {}}));   // client without certificate
}

TEST_CASE("credentials are private to the user and new per run; the authority's key is not kept",
          "[process]") {
  const two_runs x;
  const auto a = read_credentials(x.a), b = read_credentials(x.b);
  CHECK(a.secret.size() == 64);
  CHECK(a.secret != b.secret);
  CHECK(a.key != b.key);
  CHECK(a.authority != b.authority);
  CHECK(a == read_credentials(x.a));
  int files = 0;
  for (const auto& file : fs::directory_iterator(x.a)) {
    struct stat about = {};
    REQUIRE(::stat(file.path().c_str(), &about) == 0);
    CHECK((about.st_mode & 07777) == 0600);
    ++files;
  }
  CHECK(files == 4);
  CHECK(fs::status(x.a).permissions() == fs::perms(0700));
  CHECK_THROWS_AS(make_credentials(x.a, "again"), io_error);
  CHECK(a == read_credentials(x.a));
}

TEST_CASE("credentials that other users could read are refused", "[process]") {
  const two_runs x;
  const auto files = credential_files_in(x.a);
  fs::permissions(files.secret, fs::perms(0640));
  CHECK_THROWS_MATCHES(
      read_credentials(x.a), input_error, MessageMatches(ContainsSubstring("mode 0640")));
  fs::permissions(files.secret, fs::perms(0600));
  fs::remove(files.key);
  CHECK_THROWS_MATCHES(
      read_credentials(x.a), input_error, MessageMatches(ContainsSubstring("key.pem")));
  fs::create_symlink(credential_files_in(x.b).key, files.key);
  CHECK_THROWS_AS(read_credentials(x.a), input_error);
}
