// Devices of a job: which worker computes where, and how matrix products are computed there.

#pragma once

#include "runtime/trainer/job.hpp"

#include <filesystem>
#include <map>
#include <string>

namespace troupe::runtime {

/// What a user's "auto" means on this machine: cuda where a device can be used, else cpu. A GPU
/// that is there and cannot be used is told in the log, with the reason.
kernels::backend chosen_backend();

/// The device of a worker of this process: its devices in turn, by rank.
int device_of(const training_job& job, int rank);

/// Before the first worker of a job on the cuda backend: its devices are there, and products are
/// computed as the job says; algorithms that were chosen before, beside its checkpoints or in the
/// user's cache, are taken again (take_products: those in the checkpoint) where the library takes
/// them. Throws input_error and
/// backend_missing. Nothing on other backends.
void prepare_devices(const training_job& job);

/// Algorithm by product, of those that this job's process has computed so far: part of a
/// checkpoint. None on other backends, and where nothing is measured.
std::map<std::string, std::string> products_of(const training_job& job);

/// Before the first product of a job that goes on from a checkpoint, after prepare_devices: its
/// algorithms hold, whatever the file beside it says, which is told; one that the library does not
/// take is replaced, which keep_product_choices tells, or with `checkpoints.strict_identity` ends
/// the run: device_failure. A checkpoint of an older build
/// names none; where the file is missing, too, or of a build with a kernel for GELU's slope, that
/// is told, or with `checkpoints.strict_identity` refused: input_error. `folder`: of the
/// checkpoint.
void take_products(const training_job& job,
                   const std::filesystem::path& folder,
                   const std::map<std::string, std::string>& products);

/// Writes down the algorithms that were chosen meanwhile, beside the checkpoints and in the cache:
/// the next run takes them, and has the same bits. Told in the log, once each: an earlier choice
/// that the library did not take and that was replaced, here and in the files; what measuring took;
/// that a file cannot be written. Any thread; cheap when there is nothing new.
void keep_product_choices(const training_job& job);

/// Tells in the log, once each, why attention that cuDNN should compute is troupe's own, and why
/// attention that may have other bits each time is computed with the same. Any thread; after an
/// update nothing new comes.
void tell_attention(const training_job& job);

/// Of the devices that the job's workers use, together: FLOP a second, see measured_device_rate.
double matrix_rate_of_devices(const training_job& job);

/// For the identity: "NVIDIA H200", and the libraries that decide bits.
std::string device_identity(const training_job& job);
std::string library_identity();

}  // namespace troupe::runtime
