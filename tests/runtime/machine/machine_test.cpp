#include "runtime/machine/machine.hpp"

#include "runtime/file/file.hpp"
#include "runtime/machine/control_group.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::runtime;

namespace {

/// A fake root folder for the kernel's files.
struct planted {
  tests::scratch_folder root;

  void file(const std::string& name, const std::string& text) const {
    make_folder((root.path() / name).parent_path());
    write_text(root.path() / name, text);
  }
};

}  // namespace

TEST_CASE("this machine has processors, memory, disk and a backend", "[machine]") {
  const auto processor = look_at_processor();
  CHECK(processor.online >= 1);
  CHECK(processor.usable() >= 1);
  CHECK(processor.usable() <= processor.online);
  CHECK_FALSE(processor.arithmetic.empty());
  const auto memory = look_at_memory();
  CHECK(memory.total > 0);
  CHECK(memory.available <= memory.total);
  const tests::scratch_folder folder;
  const auto disk = look_at_disk(folder.path());
  CHECK(disk.total > 0);
  CHECK(disk.obstacle.empty());
  CHECK(disk.existing == folder.path());
  const auto gone = look_at_disk(folder.path() / "gone" / "for" / "good");
  CHECK(gone.existing == folder.path());
  CHECK(gone.total == disk.total);
  CHECK(has_program("sh"));
  CHECK_FALSE(has_program("no-program-has-this-name"));
}

TEST_CASE("a file at the path of a folder is an obstacle", "[machine]") {
  const planted at;
  at.file("file", "");
  CHECK_FALSE(look_at_disk(at.root.path() / "file").obstacle.empty());
}

TEST_CASE("processor and memory are read from the kernel's files", "[machine]") {
  const planted at;
  at.file("proc/cpuinfo",
          "processor\t: 0\nmodel name\t: A Fast One\nflags\t\t: fpu avx2 nonsense avx512_bf16\n");
  at.file("proc/meminfo",
          "MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:  512 kB\nSwapTotal: 2 kB\n");
  at.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  const auto processor = look_at_processor(at.root.path());
  CHECK(processor.name == "A Fast One");
  CHECK(processor.instructions == std::vector<std::string>{"avx2", "avx512_bf16"});
  CHECK(processor.clock == "hpet");
  CHECK_FALSE(processor.quota);
  const auto memory = look_at_memory(at.root.path());
  CHECK(memory.total == 1024 * 1024);
  CHECK(memory.available == 512 * 1024);
  CHECK(memory.usable() == 512 * 1024);
  CHECK_FALSE(memory.limit);
  CHECK(memory.ceiling() == 1026 * 1024);
}

TEST_CASE("the tightest limit of the cgroups v2 hierarchy counts", "[machine]") {
  const planted at;
  at.file("proc/self/cgroup", "0::/a/b\n");
  at.file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  at.file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  at.file("sys/fs/cgroup/a/memory.max", "4096\n");
  at.file("sys/fs/cgroup/a/memory.current", "1000\n");
  at.file("sys/fs/cgroup/a/b/memory.max", "8192\n");
  at.file("sys/fs/cgroup/a/b/memory.current", "2000\n");
  const auto x = read_control_groups(at.root.path());
  CHECK(x.processors == 1.5);
  CHECK(x.memory == 4096);
  CHECK(x.memory_used == 1000);
  at.file("proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\n");
  CHECK(look_at_memory(at.root.path()).usable() == 3096);
  CHECK(look_at_memory(at.root.path()).ceiling() == 4096);
}

TEST_CASE("the limits of cgroups v1 count, too", "[machine]") {
  const planted at;
  at.file("proc/self/cgroup", "4:cpu,cpuacct:/job\n3:memory:/job\nnonsense\n");
  at.file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  at.file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  at.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  at.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  at.file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1048576\n");
  at.file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "524288\n");
  const auto x = read_control_groups(at.root.path());
  CHECK(x.processors == 2);
  CHECK(x.memory == 1048576);
  CHECK(x.memory_used == 524288);
}

TEST_CASE("a machine without these files has no limits", "[machine]") {
  const planted at;
  const auto x = read_control_groups(at.root.path());
  CHECK_FALSE(x.processors);
  CHECK_FALSE(x.memory);
  CHECK(look_at_processor(at.root.path()).usable() >= 1);
  CHECK(look_at_gpus(at.root.path()).devices.empty());
}

TEST_CASE("GPUs are the numbered devices", "[machine]") {
  const planted at;
  for (const auto* name : {"nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia", "null"})
    at.file(std::string("dev/") + name, "");
  CHECK(look_at_gpus(at.root.path()).devices
        == std::vector<std::string>{"/dev/nvidia0", "/dev/nvidia1"});
}

TEST_CASE("adapters and GPUDirect are seen", "[machine]") {
  const planted at;
  CHECK_FALSE(look_at_gpus(at.root.path()).adapters);
  at.file("sys/class/infiniband/mlx5_0/node_type", "1: CA");
  CHECK(look_at_gpus(at.root.path()).adapters);
  CHECK_FALSE(look_at_gpus(at.root.path()).direct);
  at.file("sys/module/nvidia_peermem/version", "1.3");
  CHECK(look_at_gpus(at.root.path()).direct);
}

TEST_CASE("a fraction of a processor is rounded up, to at least one", "[machine]") {
  CHECK(processor_facts{.online = 8, .allowed = 4, .quota = 2.5}.usable() == 3);
  CHECK(processor_facts{.online = 8, .allowed = 4, .quota = 0.1}.usable() == 1);
  CHECK(processor_facts{.online = 8, .allowed = 4}.usable() == 4);
  CHECK(processor_facts{.online = 8}.usable() == 8);
  CHECK(memory_facts{.total = 9, .available = 5, .limit = 3, .used_of_limit = 4}.usable() == 0);
}
