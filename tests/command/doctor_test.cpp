#include "actors/command/doctor_findings.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::command;

namespace {

/// A machine that lacks nothing.
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

/// Remedy of the finding "missing" about a subject; "none" without such a finding.
std::string remedy(const machine_facts& x, const std::string& about) {
  for (const auto& f : findings_of(x))
    if (f.about == about && f.severity == weight::missing)
      return f.remedy;
  return "none";
}

}  // namespace

TEST_CASE("a healthy machine can train, without a GPU and without UCX", "[doctor]") {
  const auto all = findings_of(healthy());
  CHECK(can_train(all));
  CHECK(all.size() == 1);  // a note about UCX, without a remedy
  for (const auto& f : all)
    CHECK(f.remedy.empty());
}

TEST_CASE("missing parts are named with a remedy", "[doctor]") {
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

TEST_CASE("a missing folder is a note and does not count as a full disk", "[doctor]") {
  auto x = healthy();
  x.disk.folder = "/a/b";
  x.disk.existing = "/";
  const auto all = findings_of(x);
  CHECK(can_train(all));
  REQUIRE(all.front().about == "disk");
  CHECK(all.front().text.find("no folder '/a/b'") != std::string::npos);
  CHECK(all.front().remedy.find("mkdir -p '/a/b'") == 0);
}

TEST_CASE("a loss of time or space is a note", "[doctor]") {
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

namespace {

/// A machine with a device that the CUDA plug-in can compute on, and every other plug-in.
machine_facts with_gpu() {
  auto out = healthy();
  out.gpus = {.devices = {"/dev/nvidia0"}, .driver = true, .driver_version = "13.0"};
  const auto plugin = [](const char* name) {
    return runtime::plugin_facts{.name = name, .path = name, .opened = true};
  };
  out.accelerators = {.cuda = plugin("cuda"), .cudnn = plugin("cudnn"), .nccl = plugin("nccl")};
  out.accelerators.devices.resize(1);
  return out;
}

/// Texts and remedies of all findings about GPUs.
std::string said_of_gpu(const machine_facts& x) {
  std::string out;
  for (const auto& f : findings_of(x))
    if (f.about == "GPU")
      out += f.text + " -> " + f.remedy + "\n";
  return out;
}

}  // namespace

TEST_CASE("a complete GPU setup gives one note", "[doctor]") {
  CHECK(said_of_gpu(with_gpu()) == "1 device can compute: --backend cuda -> \n");
}

TEST_CASE("a device without compiled code is named with a build that has it", "[doctor]") {
  auto x = with_gpu();
  auto& device = x.accelerators.devices.front();
  device = {.number = 2, .name = "x", .major = 12, .minor = 0, .code = "9.0", .compiles = true};
  CHECK(said_of_gpu(x).find("device 2 runs PTX for 9.0: the driver compiles it") == 0);
  CHECK(
      said_of_gpu(x).find(
          "-> build for this device, with a toolkit that supports it (Blackwell: CUDA 12.8): cmake "
          "-DTROUPE_CUDA_ARCHITECTURES=120-real\n")
      != std::string::npos);
  device.compiles = false;
  CHECK(said_of_gpu(x) == said_of_gpu(with_gpu()));
  device.compiles = true;
  device.obstacle = "is of no use";
  CHECK(said_of_gpu(x).find("PTX") == std::string::npos);
}

TEST_CASE("what several devices exchange data by is named with a remedy", "[doctor]") {
  auto x = with_gpu();
  x.limits.locked_memory = 65536;
  x.limits.shared_memory = std::int64_t{64} << 20;
  CHECK(said_of_gpu(x) == said_of_gpu(with_gpu()));  // one device, without adapters
  x.accelerators.devices.push_back(x.accelerators.devices.front());
  x.accelerators.devices.back().hidden = {0};
  x.gpus.adapters = true;
  const auto said = said_of_gpu(x);
  for (const auto* part : {"cannot read the memory of 0",
                           "/dev/shm has 67.1 MB",
                           "--shm-size=1g",
                           "modprobe nvidia_peermem",
                           "65.5 kB of memory may be locked",
                           "ulimit -l unlimited"}) {
    CAPTURE(said, part);
    CHECK(said.find(part) != std::string::npos);
  }
}

TEST_CASE("a machine without a GPU has no finding about plug-ins", "[doctor]") {
  auto x = healthy();
  CHECK_FALSE(may_have_gpu(x));
  x.accelerators.cuda.path = "/lib/libtroupe_cuda.so";  // not opened yet
  CHECK(said_of_gpu(x).empty());
}

TEST_CASE("a missing library of a plug-in is named with its package", "[doctor]") {
  const std::string absent = "libx.so: cannot open shared object file: No such file or directory";
  auto x = with_gpu();
  x.accelerators.cuda.opened = false;
  x.accelerators.cuda.reason = absent;
  CHECK(said_of_gpu(x).find("libcublas-13-0") != std::string::npos);
  x = with_gpu();
  x.accelerators.cudnn.opened = false;
  x.accelerators.cudnn.reason = absent;
  CHECK(said_of_gpu(x).find(
            "attention uses troupe's own kernels, which are slower -> install cuDNN 9")
        != std::string::npos);
  x = with_gpu();
  x.accelerators.attention_missing = "on devices of compute capability 8 and 9 alone";
  CHECK(said_of_gpu(x).find("alone -> set TROUPE_ATTENTION=cudnn,own") != std::string::npos);
  x = with_gpu();
  x.accelerators.nccl.opened = false;
  x.accelerators.nccl.reason = absent;
  CHECK(said_of_gpu(x).find("NCCL") == std::string::npos);  // one device
  x.accelerators.devices.resize(4);
  CHECK(said_of_gpu(x).find("--collectives nccl and nccl-fast need it -> install NCCL")
        != std::string::npos);
}

TEST_CASE("an old cuDNN is a note: own kernels compute attention", "[doctor]") {
  auto x = with_gpu();
  x.accelerators.cudnn.obstacle = "cuDNN 9.1.0 is older than 9.16, which attention needs";
  CHECK(said_of_gpu(x).find(
            "9.1.0 is older than 9.16, which attention needs; attention uses troupe's own kernels")
        != std::string::npos);
}
