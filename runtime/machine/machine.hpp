// Facts about the machine and the limits on this process.
//
// Values only: nothing here is judged (`troupe doctor` does that), cached or changed.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct processor_facts {
  std::string name;             ///< "AMD EPYC ..."; empty if unknown
  int online = 0;               ///< logical processors of the machine
  int allowed = 0;              ///< number of these in the affinity mask of the process
  std::optional<double> quota;  ///< processors that the control groups allow; empty: unlimited
  std::vector<std::string> instructions;  ///< the relevant ones, e.g. "avx512_bf16"
  std::string arithmetic;                 ///< instruction sets chosen by Highway and oneDNN
  std::string clock;                      ///< the kernel's clock source, e.g. "tsc"

  /// Threads that can run at once; at least 1.
  int usable() const;
};

struct memory_facts {
  std::int64_t total = 0, available = 0;  ///< bytes of the machine
  std::optional<std::int64_t> limit;  ///< total of the control groups, in bytes; empty: unlimited
  std::int64_t used_of_limit = 0;     ///< only valid with a limit
  std::int64_t swap = 0;              ///< bytes of swap, not part of `total`

  /// Bytes that are still available.
  std::int64_t usable() const;

  /// Upper bound for any process on this machine, in bytes: memory within the limit, and swap.
  std::int64_t ceiling() const;
};

struct disk_facts {
  std::filesystem::path folder;
  std::filesystem::path existing;         ///< the folder, or its nearest existing parent
  std::int64_t total = 0, available = 0;  ///< bytes of its file system
  std::string obstacle;                   ///< why it is not writable; empty if it is
};

/// Soft limits of the process; empty: unlimited.
struct limit_facts {
  std::optional<std::int64_t> open_files, locked_memory, stack;  ///< memory in bytes
  std::optional<std::int64_t> shared_memory;  ///< bytes of /dev/shm; empty if it does not exist
};

struct gpu_facts {
  std::vector<std::string> devices;  ///< "/dev/nvidia0"
  bool driver = false;               ///< libcuda.so.1 can be loaded
  std::string driver_version;      ///< the CUDA version that it supports, "12.4"; empty if unknown
  std::vector<std::string> names;  ///< as reported by the driver
  bool tool = false;               ///< nvidia-smi is in $PATH
  bool adapters = false;           ///< there are InfiniBand or RoCE adapters
  bool direct = false;  ///< nvidia_peermem is loaded, by which adapters reach memory of devices
};

struct transport_facts {
  std::string ucx;                      ///< version of libucp; empty if it cannot be loaded
  bool tool = false;                    ///< ucx_info is in $PATH
  std::vector<std::string> transports;  ///< listed by ucx_info, e.g. "tcp", "rc_mlx5"
  std::string plugin = {};              ///< path of libtroupe_ucx.so; empty if not found
};

struct library_version {
  std::string name, version;
};

/// `root` contains /proc and /sys; only tests set it.
processor_facts look_at_processor(const std::filesystem::path& root = "/");
memory_facts look_at_memory(const std::filesystem::path& root = "/");
disk_facts look_at_disk(const std::filesystem::path& folder);
limit_facts look_at_limits(const std::filesystem::path& shared_memory = "/dev/shm");
gpu_facts look_at_gpus(const std::filesystem::path& root = "/");
transport_facts look_at_transports();

bool has_program(const std::string& name);

}  // namespace troupe::runtime
