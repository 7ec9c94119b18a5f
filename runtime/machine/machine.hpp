// What the machine has, and what the limits around this process leave of it. Values only: nothing
// here judges (`troupe doctor` does), nothing is kept, nothing is changed.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct processor_facts {
  std::string name;                       ///< "AMD EPYC ..."; empty: the system does not say
  int online = 0;                         ///< logical processors of the machine
  int allowed = 0;                        ///< of those, how many the affinity of the process leaves
  std::optional<double> quota;            ///< processors that the control groups leave; none: all
  std::vector<std::string> instructions;  ///< of those that matter here, e.g. "avx512_bf16"
  std::string arithmetic;                 ///< what Highway and oneDNN chose
  std::string clock;                      ///< the kernel's clock source, e.g. "tsc"

  /// Threads that can run at once, at least 1.
  int usable() const;
};

struct memory_facts {
  std::int64_t total = 0, available = 0;  ///< bytes of the machine
  std::optional<std::int64_t> limit;      ///< bytes that the control groups leave in all; none: all
  std::int64_t used_of_limit = 0;         ///< meaningless without one
  std::int64_t swap = 0;                  ///< bytes of the machine, beyond `total`

  /// Bytes that can still be taken.
  std::int64_t usable() const;

  /// Bytes that nothing that runs here can exceed, were it alone: memory within the limit, and
  /// swap.
  std::int64_t ceiling() const;
};

struct disk_facts {
  std::filesystem::path folder;
  std::filesystem::path existing;         ///< the folder, or where there is none the nearest above
  std::int64_t total = 0, available = 0;  ///< bytes, of its file system
  std::string obstacle;                   ///< why nothing can be written there; empty: it can
};

/// Soft limits of the process; none: unlimited.
struct limit_facts {
  std::optional<std::int64_t> open_files, locked_memory, stack;  ///< memory in bytes
  std::optional<std::int64_t> shared_memory;  ///< bytes of /dev/shm; none: there is none
};

struct gpu_facts {
  std::vector<std::string> devices;  ///< "/dev/nvidia0"
  bool driver = false;               ///< libcuda.so.1 can be loaded
  std::string driver_version;        ///< the CUDA version that it serves, "12.4"; empty: unknown
  std::vector<std::string> names;    ///< as the driver tells them
  bool tool = false;                 ///< nvidia-smi is in $PATH
};

struct transport_facts {
  std::string ucx;                      ///< version of libucp; empty: it cannot be loaded
  bool tool = false;                    ///< ucx_info is in $PATH
  std::vector<std::string> transports;  ///< that ucx_info lists, e.g. "tcp", "rc_mlx5"
  std::string plugin = {};              ///< file of libtroupe_ucx.so; empty: there is none
};

struct library_version {
  std::string name, version;
};

/// `root` is where /proc and /sys are found: "/" but in tests.
processor_facts look_at_processor(const std::filesystem::path& root = "/");
memory_facts look_at_memory(const std::filesystem::path& root = "/");
disk_facts look_at_disk(const std::filesystem::path& folder);
limit_facts look_at_limits(const std::filesystem::path& shared_memory = "/dev/shm");
gpu_facts look_at_gpus(const std::filesystem::path& root = "/");
transport_facts look_at_transports();

/// Whether a program of this name is in $PATH.
bool has_program(const std::string& name);

}  // namespace troupe::runtime
