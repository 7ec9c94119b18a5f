// Fuzzes Slurm's lists of hosts and of tasks.

#include "runtime/launch/hosts.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {"gpu[001-004,7],login-[a,b]", "x[1-2]-rack[3-4]", "n0,n1", "2(x3),1", "4"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"[", "]", "[09-11]", "[1-65537]", "-", ",", "(x", ")", "(x65536)", "[]", "]["};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::accepted([&] {
    const auto hosts = hosts_in_list(text, "the list");
    fuzz::require(hosts_in_list(fmt::format("{}", fmt::join(hosts, ",")), "the names") == hosts,
                  "the names of a list are the same list");
  });
  fuzz::accepted([&] {
    const auto tasks = counts_in_list(text, "the list");
    fuzz::require(counts_in_list(fmt::format("{}", fmt::join(tasks, ",")), "the counts") == tasks,
                  "the counts of a list are the same list");
  });
  return 0;
}
