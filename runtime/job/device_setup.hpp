// Devices of a job: assigns workers to devices and chooses the algorithms of matrix products.

#pragma once

#include "runtime/job/job.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The meaning of "auto" on this machine: cuda if a device is usable, else cpu. Logs the reason if
/// a GPU exists but is not usable.
kernels::backend chosen_backend();

/// The devices that a process has claimed.
struct held_devices {
  std::map<int, int> of;  ///< by rank
  std::vector<std::shared_ptr<void>> claims;
};

/// The device of a worker of this process: the claimed one, else the job's devices in turn, by
/// rank.
int device_of(const training_job& job, int rank, const held_devices* held = nullptr);

/// Checks the devices of a job for the ranks of this process, and sets how products are computed.
/// Call it before the first worker; does nothing on other backends than cuda. Takes algorithms that
/// earlier runs stored beside the checkpoints or in the user's cache, if the library accepts them;
/// take_products takes those in the checkpoint. Throws input_error and backend_missing.
void prepare_devices(const training_job& job,
                     const std::vector<int>& ranks,
                     const held_devices* held = nullptr);

/// Claims a device for each of a process's ranks, so that no other process of the run on this host
/// uses it; see hold_device. Any free devices will do: other hosts may have some of the ranks
/// between. Null if devices may be shared: on other backends, and if `devices.numbers` names them.
/// If too few are free, throws input_error, or only warns for a process that was started again: it
/// may have moved here from a lost host.
[[nodiscard]] std::shared_ptr<const held_devices> hold_devices(const training_job& job,
                                                               const std::vector<int>& ranks,
                                                               const std::string& run,
                                                               bool started_again);

/// Algorithm by product, of all products that the job's process has computed; stored in
/// checkpoints. Empty on other backends, and if nothing is measured.
std::map<std::string, std::string> products_of(const training_job& job);

/// Takes the algorithms that a checkpoint lists. Call it after prepare_devices and before the first
/// product of a resumed job. The checkpoint takes precedence over the file beside it; a difference
/// is logged. If the library refuses an algorithm, keep_product_choices replaces it and logs that;
/// with `checkpoints.strict_identity` the run ends with device_failure. Checkpoints of older builds
/// list none. If the file is also missing, or is of a build with a separate kernel for the slope of
/// GELU, this logs a warning; with `checkpoints.strict_identity` it throws input_error. `folder`:
/// of the checkpoint.
void take_products(const training_job& job,
                   const std::filesystem::path& folder,
                   const std::map<std::string, std::string>& products);

/// Stores newly chosen algorithms beside the checkpoints and in the cache, so that the next run
/// takes them and has the same bits. Logs once each: an earlier choice that the library refused and
/// that was replaced, the time of measuring, and a file that cannot be written. Any thread; cheap
/// if there is nothing new.
void keep_product_choices(const training_job& job);

/// Logs, once each, why attention uses troupe's own kernels instead of cuDNN, and why
/// nondeterministic attention runs deterministically. Any thread; complete after the first update.
void tell_attention(const training_job& job);

/// The sum over the devices of the job's workers in FLOP per second; see measured_device_rate. With
/// several processes and no named devices, each rank counts with a device like the first one here.
double matrix_rate_of_devices(const training_job& job);

/// Parts of the run's identity: "NVIDIA H200", and the libraries that decide bits.
std::string device_identity(const training_job& job);
std::string library_identity();

}  // namespace troupe::runtime
