#include "actors/command/hosts.hpp"
#include "actors/command/launch_nodes.hpp"
#include "actors/command/readers.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The launch of hosts with so many workers; 0: not given by the user.
struct decided {
  std::vector<int> of;  ///< processes by host; empty: equally many
  int world = 0, processes = 0;
  bool operator==(const decided&) const = default;
};
decided shared(const std::vector<int>& workers, int world = 0, int processes = 0) {
  training_flags flags;
  if (world > 0) {
    flags.given.insert("layout.world");
    flags.job.layout.world = world;
  }
  if (processes > 0) {
    flags.given.insert("layout.processes");
    flags.job.layout.processes = processes;
  }
  decide_workers(flags, workers);
  auto of = decide_processes(flags, workers);
  return {std::move(of), flags.job.layout.world, flags.job.layout.processes};
}

host_flags two_nodes() {
  host_flags out;
  out.nodes = "10.0.0.1:7000,10.0.0.2:7000*2";
  return out;
}

std::vector<launched_host> told() {
  return {{.name = "a", .domain = "s0", .cores = 8}, {.name = "b", .domain = "s1", .cores = 12}};
}

}  // namespace

TEST_CASE("hosts of a launch have as many workers as ranks or devices, in equal processes",
          "[launch]") {
  CHECK(shared({2, 2, 1}) == decided{{2, 2, 1}, 5, 5});
  CHECK(shared({8, 4}) == decided{{2, 1}, 12, 3});
  CHECK(shared({8, 4}, 0, 6) == decided{{4, 2}, 12, 6});
  CHECK(shared({2, 2}) == decided{{}, 4, 2});
  CHECK(shared({2, 2}, 0, 4) == decided{{}, 4, 4});
}

TEST_CASE("a given number of workers is shared in proportion where that is possible", "[launch]") {
  CHECK(shared({2, 1}, 6) == decided{{2, 1}, 6, 3});
  CHECK(shared({2, 2, 1}, 3) == decided{{}, 3, 3});
  CHECK_THROWS_MATCHES(
      shared({8, 4}, 0, 4),
      usage_error,
      MessageMatches(ContainsSubstring("2 hosts of this launch have different numbers")
                     && ContainsSubstring("give a multiple of 3")));
  CHECK_THROWS_MATCHES(
      shared({2, 2}, 0, 3), usage_error, MessageMatches(ContainsSubstring("a multiple of 2")));
}

TEST_CASE("workers share the cores of their own host", "[launch]") {
  CHECK(cores_per_worker({}, {}, 4, 1, 16) == 4);
  CHECK(cores_per_worker({}, {}, 64, 1, 16) == 1);
  CHECK(cores_per_worker(two_nodes(), told(), 6, 3, 2)
        == 3);  // 12 cores for 4 workers of b, 8 for 2 of a
  auto hosts = two_nodes();
  CHECK(cores_per_worker(hosts, {}, 3, 3, 16) == 8);  // hosts like this one
  hosts.nodes = "127.0.0.1:7000,127.0.0.1:7001";
  CHECK(cores_per_worker(hosts, {}, 4, 2, 16) == 4);  // one machine
}

TEST_CASE("hosts of a launch have domains by their names, or as the launcher tells", "[launch]") {
  const troupe::tests::scratch_folder folder;
  auto hosts = two_nodes();
  CHECK(hosts_of(hosts, 3, told())[1].domain == "s1");
  hosts.failure_domains = folder / "domains";
  troupe::runtime::write_text(hosts.failure_domains, "a rack-1\n10.0.0.2 rack-2\n");
  CHECK(hosts_of(hosts, 3, told())[0].domain == "rack-1");
  CHECK(hosts_of(hosts, 3, told())[1].domain == "rack-2");
  troupe::runtime::write_text(hosts.failure_domains, "a rack-1\n");
  CHECK_THROWS_MATCHES(hosts_of(hosts, 3, told()),
                       usage_error,
                       MessageMatches(ContainsSubstring("add a line 'b DOMAIN'")));
}
