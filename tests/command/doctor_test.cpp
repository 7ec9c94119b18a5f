#include "actors/command/doctor_findings.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::command;

namespace {

/// A machine on which nothing is missing.
machine_facts healthy() {
  machine_facts out;
  out.processor = {.name = "x",
                   .online = 4,
                   .allowed = 4,
                   .instructions = {"avx2", "avx512_bf16"},
                   .arithmetic = "x",
                   .clock = "tsc"};
  out.memory = {.total = std::int64_t{8} << 30, .available = std::int64_t{4} << 30};
  out.disk = {.folder = ".",
              .existing = ".",
              .total = std::int64_t{8} << 30,
              .available = std::int64_t{4} << 30};
  out.limits.open_files = 1024;
  return out;
}

/// The remedy for what is missing about this; "none" when nothing is.
std::string remedy(const machine_facts& x, const std::string& about) {
  for (const auto& f : findings_of(x))
    if (f.about == about && f.how == weight::missing)
      return f.remedy;
  return "none";
}

}  // namespace

TEST_CASE("a healthy machine can train, without a GPU and without UCX", "[doctor]") {
  const auto all = findings_of(healthy());
  CHECK(can_train(all));
  CHECK(all.size() == 2);  // of the GPU and of UCX: notes, with nothing to be done
  for (const auto& f : all)
    CHECK(f.remedy.empty());
}

TEST_CASE("what is missing is named, with what mends it", "[doctor]") {
  auto x = healthy();
  x.memory.available = 1 << 20;
  CHECK(remedy(x, "memory").find("ps aux") != std::string::npos);
  x = healthy();
  x.memory.limit = 1 << 20;
  CHECK(remedy(x, "memory").find("docker run --memory") != std::string::npos);
  x = healthy();
  x.disk.obstacle = "no permission";
  CHECK(remedy(x, "disk").find("cd ") == 0);
  x = healthy();
  x.disk.available = 0;
  CHECK(remedy(x, "disk").find("df -h") != std::string::npos);
  x = healthy();
  x.limits.open_files = 8;
  CHECK(remedy(x, "limits") == "ulimit -n 1024");
  CHECK_FALSE(can_train(findings_of(x)));
}

TEST_CASE("a folder that is not there is a note, and no full disk", "[doctor]") {
  auto x = healthy();
  x.disk.folder = "/a/b";
  x.disk.existing = "/";
  const auto all = findings_of(x);
  CHECK(can_train(all));
  REQUIRE(all.front().about == "disk");
  CHECK(all.front().text.find("no folder '/a/b'") != std::string::npos);
  CHECK(all.front().remedy.find("mkdir -p '/a/b'") == 0);
}

TEST_CASE("what only costs time or room is a note", "[doctor]") {
  auto x = healthy();
  x.processor.quota = 2;
  x.processor.instructions = {"avx2"};
  x.processor.clock = "hpet";
  x.memory.limit = std::int64_t{2} << 30;
  x.gpus.devices = {"/dev/nvidia0"};
  const auto all = findings_of(x);
  CHECK(can_train(all));
  CHECK(all.size() == 6);
}
