#include "actors/job/hub_port.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/process_id.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

namespace troupe::tests {
namespace {

using namespace actors;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

runtime::watch_settings at(const std::string& address, const std::filesystem::path& file = {}) {
  runtime::watch_settings out;
  out.hub = address;
  out.hub_certificate = file;
  return out;
}

}  // namespace

TEST_CASE("a run has a port for viewers only with `watch.hub`; a loopback port needs no TLS") {
  CHECK(!hub_port_of({}));
  for (const auto* address : {"127.0.0.1:0", "localhost:7000", "[::1]:7000", "127.9.9.9:1"}) {
    const auto port = hub_port_of(at(address));
    REQUIRE(port);
    CHECK(!port->tls);
  }
  CHECK(hub_port_of(at("localhost:7000"))->at.address == "127.0.0.1");
  CHECK(hub_port_of(at("localhost:7000"))->at.port == 7000);
}

TEST_CASE("a port that other hosts reach needs TLS") {
  for (const auto* address : {"0.0.0.0:7000", "[::]:7000", "192.0.2.1:7000"})
    CHECK_THROWS_MATCHES(hub_port_of(at(address)),
                         runtime::input_error,
                         MessageMatches(ContainsSubstring("so it needs TLS")));
  CHECK_THROWS_MATCHES(hub_port_of(at("", "some.pem")),
                       runtime::input_error,
                       MessageMatches(ContainsSubstring("needs `watch.hub` HOST:PORT")));
  CHECK_THROWS_AS(hub_port_of(at("no-port")), runtime::input_error);
}

TEST_CASE("a certificate is read and checked before the run starts") {
  const scratch_folder folder;
  runtime::make_credentials(folder.path(), "0011223344556677");
  const auto certificate = runtime::read_text(folder / "certificate.pem"),
             key = runtime::read_text(folder / "key.pem");
  const auto file = folder / "hub.pem";
  runtime::write_text(file, certificate + key);
  const auto port = hub_port_of(at("0.0.0.0:7000", file));
  REQUIRE(port);
  REQUIRE(port->tls);
  CHECK(std::ranges::count(port->names, runtime::host_name()) > 0);

  runtime::make_credentials(folder / "other", "0011223344556677");
  const auto other = runtime::read_text(folder / "other/key.pem");
  for (const auto& text : {certificate, key, certificate + other, std::string("nonsense")}) {
    runtime::write_text(file, text);
    CHECK_THROWS_MATCHES(hub_port_of(at("0.0.0.0:7000", file)),
                         runtime::input_error,
                         MessageMatches(ContainsSubstring(file.string())));
  }
  CHECK_THROWS_AS(hub_port_of(at("127.0.0.1:7000", folder / "gone.pem")), runtime::input_error);
}

}  // namespace troupe::tests
