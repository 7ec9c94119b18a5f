// States of ranks on a local disk.

#include "runtime/state/local_states.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/local_state_files.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

tensor array_of(std::int64_t n, float first) {
  memory_pool pool;
  tensor x(pool.allocate(std::size_t(n) * sizeof(float)), dtype::f32, {n});
  for (std::int64_t i = 0; i < n; ++i)
    x.data<float>()[i] = first + float(i);
  return x;
}

std::shared_ptr<const rank_state> state(float value) {
  rank_state out{.digests = {.own = {{"w", {7, std::uint64_t(value)}}},
                             .copies = {{"u", {3, 4}}, {"v", {1, 2}}, {"v", {1, 1}}}}};
  out.parts[chunk_id(0)]
      = {6, {{0, 2}, {3, 6}}, {array_of(2, value), array_of(3, -value)}, array_of(10, value)};
  out.parts[chunk_id(3)] = {4, {{0, 4}}, {array_of(4, 2 * value)}, array_of(8, 3 * value)};
  return std::make_shared<const rank_state>(std::move(out));
}

step_to_store step(std::uint64_t iteration, int process = 0) {
  return {process, iteration, {{2, state(float(iteration))}, {3, state(float(iteration) + 1)}}};
}

std::vector<std::uint64_t> steps_of(const local_states& x, int process = 0) {
  std::vector<std::uint64_t> out;
  for (const auto& one : x.complete())
    if (one.process == process)
      out.push_back(one.iteration);
  return out;
}

void store(local_states& to, std::uint64_t iteration, int process = 0) {
  to.store(step(iteration, process));
  to.finish();
}

bool same_bytes(const tensor& a, const tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

using steps = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a state on the local disk is read by another process, bit for bit", "[trainer]") {
  const scratch_folder folder;
  {
    local_states x(folder / "states");
    store(x, 42);
  }
  local_states x(folder / "states");
  REQUIRE(x.complete().size() == 1);
  const auto found = x.complete().front();
  CHECK(found.process == 0);
  CHECK(found.iteration == 42);
  CHECK(found.own.at(3) == std::map<std::string, digest>{{"w", {7, 43}}});
  const auto back = x.read(0, 3, 42);
  const auto wanted = state(43);
  CHECK(back.digests == wanted->digests);
  REQUIRE(back.parts.size() == 2);
  for (const auto& [id, part] : wanted->parts) {
    const auto& other = back.parts.at(id);
    CHECK(other.elements == part.elements);
    CHECK(other.own_weights == part.own_weights);
    REQUIRE(other.weights.size() == part.weights.size());
    for (std::size_t i = 0; i < part.weights.size(); ++i)
      CHECK(same_bytes(other.weights[i], part.weights[i]));
    CHECK(same_bytes(other.kept, part.kept));
  }
  CHECK_THROWS_AS(x.read(0, 4, 42), input_error);
}

TEST_CASE("the two newest steps of each process are kept", "[trainer]") {
  const scratch_folder folder;
  local_states x(folder.path());
  for (const std::uint64_t n : {10, 20, 30})
    store(x, n);
  store(x, 10, 1);
  CHECK(steps_of(x) == steps{20, 30});
  CHECK(steps_of(x, 1) == steps{10});
  CHECK_FALSE(fs::exists(folder / "process-0/step-0000010"));
  CHECK(steps_of(local_states(folder.path())) == steps{20, 30});
}

TEST_CASE("older states of a former keeper on this host are removed", "[trainer]") {
  const scratch_folder folder;
  local_states now(folder.path()), before(folder.path());
  for (const std::uint64_t n : {10, 20})
    store(before, n);
  store(before, 10, 1);
  for (const std::uint64_t n : {30, 40})
    store(now, n);
  CHECK(steps_of(local_states(folder.path())) == steps{30, 40});
  CHECK(steps_of(local_states(folder.path()), 1) == steps{10});
}

TEST_CASE("a step that was removed from the disk is not listed", "[trainer]") {
  const scratch_folder folder;
  local_states x(folder.path());
  for (const std::uint64_t n : {10, 20})
    store(x, n);
  fs::remove_all(folder / "process-0/step-0000020");
  CHECK(steps_of(x) == steps{10});
}

TEST_CASE("writing a step removes newer steps of a run that went back", "[trainer]") {
  const scratch_folder folder;
  {
    local_states x(folder.path());
    store(x, 90);
    store(x, 100);
  }
  local_states x(folder.path());
  store(x, 20);
  CHECK(steps_of(x) == steps{20});
}

TEST_CASE("LOCAL-1: an incomplete step is not listed and is removed", "[trainer]") {
  const scratch_folder folder;
  {
    local_states x(folder.path());
    store(x, 10);
  }
  fs::copy(folder / "process-0/step-0000010", folder / "process-0/.step-0000020.partial");
  // Without a manifest, which is written last.
  fs::create_directory(folder / "process-0/step-0000030");
  write_text(folder / "else", "what is not ours stays");
  local_states x(folder.path());
  CHECK(steps_of(x) == steps{10});
  CHECK_FALSE(fs::exists(folder / "process-0/.step-0000020.partial"));
  CHECK_FALSE(fs::exists(folder / "process-0/step-0000030"));
  CHECK(fs::exists(folder / "else"));
}

TEST_CASE("LOCAL-1: the files that a living process writes are left alone", "[trainer]") {
  const scratch_folder folder;
  {
    local_states x(folder.path());
    store(x, 10);
    store(x, 10, 1);
  }
  const auto half = folder / "process-0/.step-0000020.partial";
  const auto of_dead = folder / "process-1/.step-0000020.partial";
  for (const auto& to : {half, of_dead})
    fs::copy(folder / "process-0/step-0000010", to);
  fs::create_directory(folder / "process-0/step-0000030");
  std::optional<local_writer_lock> living(std::in_place);
  living->take(folder.path(), 0);
  local_states x(folder.path());
  CHECK(steps_of(x) == steps{10});
  CHECK(fs::exists(half));
  CHECK(fs::exists(folder / "process-0/step-0000030"));
  CHECK_FALSE(fs::exists(of_dead));
  x.store(step(40));  // waits
  CHECK(steps_of(x) == steps{10});
  CHECK_FALSE(fs::exists(folder / "process-0/.step-0000040.partial"));
  living.reset();
  x.finish();
  CHECK(steps_of(x) == steps{10, 40});
  CHECK(steps_of(local_states(folder.path())) == steps{10, 40});
  CHECK_FALSE(fs::exists(half));
}

TEST_CASE("LOCAL-2: a manifest with an impossible size is refused", "[trainer]") {
  // Four times this number is 0 in 64 bits.
  const auto told = std::string("\"kept\": ") + GENERATE("4611686018427387904", "1000000");
  const scratch_folder folder;
  local_states x(folder.path());
  store(x, 10);
  const auto file = folder / "process-0/step-0000010/manifest.json";
  auto text = read_text(file).substr(65);
  const auto at = text.find("\"kept\": ");
  REQUIRE(at != std::string::npos);
  text.replace(at, text.find_first_of(",\n}", at) - at, told);
  sha256 seal;
  seal.add(text.data(), text.size());
  std::ofstream(file, std::ios::binary) << seal.hex() + "\n" + text;
  CHECK_THROWS_MATCHES(x.read(0, 2, 10),
                       input_error,
                       MessageMatches(ContainsSubstring("shorter than its manifest")));
}

TEST_CASE("LOCAL-2: a flipped bit is found, and the step is removed", "[trainer]") {
  const auto* const name = GENERATE("rank-00002.state", "manifest.json");
  const auto place = GENERATE(0.0, 0.5, 1.0);
  CAPTURE(name, place);
  const scratch_folder folder;
  {
    local_states x(folder.path());
    store(x, 10);
    store(x, 20);
  }
  const auto file = folder / "process-0/step-0000020" / name;
  auto bytes = read_text(file);
  auto& byte = bytes[std::size_t(place * double(bytes.size() - 1))];
  byte = char(byte ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  local_states x(folder.path());
  if (std::string_view(name) != "manifest.json")
    CHECK_THROWS_MATCHES(x.read(0, 2, 20),
                         input_error,
                         MessageMatches(ContainsSubstring("rank 2 after iteration 20")
                                        && ContainsSubstring("damaged")));
  CHECK(steps_of(x) == steps{10});
  CHECK_FALSE(fs::exists(folder / "process-0/step-0000020"));
}

TEST_CASE("LOCAL-2: a truncated or missing file is not used", "[trainer]") {
  const bool gone = GENERATE(false, true);
  const scratch_folder folder;
  local_states x(folder.path());
  store(x, 10);
  const auto file = folder / "process-0/step-0000010/rank-00003.state";
  if (gone)
    fs::remove(file);
  else
    fs::resize_file(file, fs::file_size(file) - 4);
  CHECK_THROWS_AS(x.read(0, 3, 10), input_error);
  CHECK(x.complete().empty());
}

TEST_CASE("LOCAL-3: a failing disk does not stop the run, and is used again when it works",
          "[trainer]") {
  const scratch_folder folder;
  write_text(folder / "states", "a file stands in the way");
  local_states x(folder / "states");
  store(x, 10);
  store(x, 20);
  CHECK(x.complete().empty());
  fs::remove(folder / "states");
  store(x, 30);
  CHECK(steps_of(x) == steps{30});
  fs::remove_all(folder / "states");  // the folder disappears
  store(x, 40);
  CHECK(steps_of(local_states(folder / "states")) == steps{40});
}

TEST_CASE(
    "LOCAL-3: one step of each process is written at a time; processes do not wait for each other",
    "[trainer]") {
  const scratch_folder folder;
  std::optional<local_writer_lock> living(std::in_place);
  living->take(folder.path(), 0);
  local_states x(folder.path());
  x.store(step(10));
  x.store(step(20));  // skipped
  x.store(step(10, 1));
  CHECK(x.storing(0) == 10);
  CHECK(x.storing(1) == 10);
  CHECK_FALSE(x.storing(2));
  CHECK(x.written(0).empty());
  living.reset();
  x.finish();
  CHECK_FALSE(x.storing(0));
  CHECK(x.written(0) == steps{10});
  CHECK(steps_of(x) == steps{10});
  CHECK(steps_of(x, 1) == steps{10});
}

TEST_CASE("LOCAL-4: the step that all processes have is kept beside the two newest", "[trainer]") {
  const scratch_folder folder;
  local_states x(folder.path());
  for (const std::uint64_t n : {10, 20, 30, 40}) {
    auto one = step(n);
    one.common = n == 10 ? 0 : 10;
    x.store(std::move(one));
    x.finish();
  }
  CHECK(steps_of(x) == steps{10, 30, 40});
  CHECK(x.written(0) == steps{10, 30, 40});
  auto last = step(50);
  last.common = 40;
  x.store(std::move(last));
  x.finish();
  CHECK(steps_of(x) == steps{40, 50});
}

TEST_CASE("a step that this process has written is not written again", "[trainer]") {
  const scratch_folder folder;
  local_states x(folder.path());
  store(x, 10);
  const auto file = folder / "process-0/step-0000010/manifest.json";
  const auto before = fs::last_write_time(file);
  fs::last_write_time(file, before - std::chrono::hours(1));
  store(x, 10);
  CHECK(fs::last_write_time(file) == before - std::chrono::hours(1));
}

TEST_CASE("different runs have different folders", "[trainer]") {
  CHECK(local_folder_of("/x", "a", "b") != local_folder_of("/x", "a", "c"));
  CHECK(local_folder_of("/x", "a", "b") != local_folder_of("/x", "ab", ""));
  CHECK(local_folder_of("/x", "a", "b") == local_folder_of("/x", "a", "b"));
  CHECK(local_folder_of("/x", "a", "b").parent_path() == "/x");
}
