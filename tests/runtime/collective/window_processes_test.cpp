// Windows between real processes: exact bits, and the release of the others after a kill.

#include "runtime/collective/local/local_group.hpp"
#include "tests/support/child.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/window_scenario.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::vector<std::unique_ptr<child>> processes_of(
    const fs::path& folder, int count, int ranks, const std::string& kind, const char* act) {
  std::vector<std::unique_ptr<child>> out;
  for (int p = 0; p < count; ++p)
    out.push_back(std::make_unique<child>(std::vector<std::string>{bin_dir() + "/window_peer",
                                                                   folder.string(),
                                                                   std::to_string(p),
                                                                   std::to_string(count),
                                                                   std::to_string(ranks),
                                                                   kind,
                                                                   act}));
  return out;
}

/// All lines until an empty one.
std::multiset<std::string> rest_of(child& x) {
  std::multiset<std::string> out;
  for (auto line = x.line(); !line.empty(); line = x.line())
    if (line != "started")
      out.insert(line);
  return out;
}

std::multiset<std::string> judged(int size, int first, int ranks) {
  const auto group = std::make_shared<local_group>(axis::data, size, cancel_token());
  std::vector<std::vector<std::string>> said(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      stream stream(troupe::kernels::backend::cpu, 1, {});
      said[std::size_t(r)] = window_scenario(mine, stream);
    });
  for (auto& t : threads)
    t.join();
  std::multiset<std::string> out{"over"};
  for (int r = first; r < first + ranks; ++r)
    for (std::size_t i = 0; i < said[std::size_t(r)].size(); ++i)
      out.insert(fmt::format("rank {} call {}: {}", r, i, said[std::size_t(r)][i]));
  return out;
}

}  // namespace

TEST_CASE("operations between real processes have the bits of the local group",
          "[collective][unsanitized]") {
  const std::string kind = GENERATE("shared", "wire", "refused", "mixed");
  const auto [count, ranks] = GENERATE(std::pair(2, 1), std::pair(3, 1), std::pair(2, 2));
  CAPTURE(kind, count, ranks);
  const scratch_folder folder;
  const auto all = processes_of(folder.path(), count, ranks, kind, "scenario");
  for (int p = 0; p < count; ++p)
    CHECK(rest_of(*all[std::size_t(p)]) == judged(count * ranks, p * ranks, ranks));
}

TEST_CASE("a process that is killed during a sum releases all others, which name it",
          "[collective][unsanitized]") {
  const std::string kind = GENERATE("shared", "wire", "refused");
  const int victim = GENERATE(0, 2), count = 3;
  CAPTURE(kind, victim);
  const scratch_folder folder;
  const auto all = processes_of(folder.path(), count, 2, kind, "repeat");
  for (const auto& x : all)
    for (int r = 0; r < 2; ++r)
      REQUIRE(x->line() == "started");
  all[std::size_t(victim)]->end();
  // With shared memory the owner of the processes reports the loss; a wire detects it.
  std::ofstream(folder.path() / fmt::format("lost.{}", victim)) << "\n";
  for (int p = 0; p < count; ++p) {
    if (p == victim)
      continue;
    const auto said = rest_of(*all[std::size_t(p)]);
    REQUIRE(said.size() == 3);
    CHECK(said.contains("over"));
    for (const auto& line : said)
      if (line != "over")
        CHECK_THAT(line,
                   ContainsSubstring(fmt::format("process {} ", victim + 1))
                       && ContainsSubstring("its generation must end"));
  }
}

TEST_CASE("the end of a generation releases the ranks of all processes",
          "[collective][unsanitized]") {
  const std::string kind = GENERATE("shared", "wire");
  const scratch_folder folder;
  const auto all = processes_of(folder.path(), 4, 1, kind, "repeat");
  for (const auto& x : all)
    REQUIRE(x->line() == "started");
  std::ofstream(folder.path() / "end") << "\n";
  for (int p = 0; p < 4; ++p)
    CHECK(rest_of(*all[std::size_t(p)])
          == std::multiset<std::string>{
              fmt::format("rank {} ended: cancelled: its generation has ended", p), "over"});
}
