#include "runtime/job/device_setup.hpp"

#include "kernels/backend/cuda_library.hpp"
#include "kernels/backend/plugin.hpp"
#include "runtime/collective/nccl/nccl.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/device/device.hpp"
#include "runtime/device/held_device.hpp"
#include "runtime/device/product_choices.hpp"
#include "runtime/machine/matrix_rate.hpp"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

namespace troupe::runtime {

namespace {

namespace fs = std::filesystem;

/// Checks for a driver first: opening the plug-in loads hundreds of megabytes.
bool has_driver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr)
    return false;
  ::dlclose(driver);
  return true;
}

std::vector<int> devices_of(const training_job& job) {
  if (!job.devices.numbers.empty())
    return job.devices.numbers;
  std::vector<int> all;
  for (int d = 0; d < open_devices().count(); ++d)
    if (open_devices().obstacle(d).empty())
      all.push_back(d);
  return all;
}

fs::path beside(const fs::path& checkpoints) {
  return checkpoints.empty() ? fs::path() : checkpoints / "products.json";
}

/// Files of chosen algorithms, in order of precedence: the file of the loaded checkpoint comes
/// first.
std::vector<fs::path> choice_files(const training_job& job) {
  std::vector<fs::path> out;
  for (const auto& path : {beside(job.checkpoints.load),
                           beside(job.checkpoints.save),
                           job.devices.product_choices.empty() ? default_product_choices()
                                                               : job.devices.product_choices})
    if (!path.empty() && std::find(out.begin(), out.end(), path) == out.end())
      out.push_back(path);
  return out;
}

std::set<int> used_devices(const training_job& job,
                           const std::vector<int>& ranks,
                           const held_devices* held = nullptr) {
  std::set<int> out;
  for (const int rank : ranks)
    out.insert(device_of(job, rank, held));
  return out;
}

/// Warns about devices that were not requested by number and are left out.
void tell_left_out() {
  for (int d = 0; d < open_devices().count(); ++d)
    if (const auto why = open_devices().obstacle(d); !why.empty())
      log_warning("device {} {}: it is not used", d, why);
}

/// Enables peer access, which sums over workers' memory need. Throws input_error if two devices
/// have none.
void let_workers_read(const training_job& job, const std::set<int>& used) {
  for (const int d : used)
    for (const int other : used)
      if (d != other && !open_devices().let_read(d, other)
          && job.devices.exchange == collectives::local
          && job.layout.world > job.layout.pipeline)  // stages only copy
        throw input_error(
            "device {} cannot read the memory of device {}, which `devices.exchange` local needs: "
            "give `devices.exchange` nccl, or `devices.numbers` with peer access (nvidia-smi topo "
            "-p2p r)",
            d,
            other);
}

}  // namespace

std::string_view to_string(collectives x) {
  return x == collectives::local ? "local" : x == collectives::nccl ? "nccl" : "nccl-fast";
}

std::string_view to_string(transports x) {
  return x == transports::tickets ? "tickets" : "ucx";
}

kernels::backend chosen_backend() {
  if (!has_driver())
    return kernels::backend::cpu;
  try {
    open_devices();
    return kernels::backend::cuda;
  } catch (const kernels::backend_missing& failure) {
    log_warning("{}; using the cpu backend", failure.what());
    return kernels::backend::cpu;
  }
}

int device_of(const training_job& job, int rank, const held_devices* held) {
  if (job.backend != kernels::backend::cuda)
    return 0;
  if (held != nullptr)
    return held->of.at(rank);
  const auto all = devices_of(job);
  return all[std::size_t(rank) % all.size()];
}

void prepare_devices(const training_job& job,
                     const std::vector<int>& ranks,
                     const held_devices* held) {
  if (job.backend != kernels::backend::cuda)
    return;
  for (const int d : devices_of(job))
    require_device(d);
  if (job.devices.numbers.empty())
    tell_left_out();
  const auto used = used_devices(job, ranks, held);
  if (job.devices.exchange != collectives::local && !ranks.empty())
    open_nccl();
  if (job.devices.exchange != collectives::local && ranks.size() > used.size())
    throw input_error(
        "`devices.exchange` {} needs a device for each of the {} workers of this process, but "
        "there are {}: NCCL serves one rank per device; give `devices.exchange` local, or more "
        "`devices.numbers`",
        to_string(job.devices.exchange),
        ranks.size(),
        used.size());
  let_workers_read(job, used);
  auto& library = kernels::open_cuda();
  library.set_products({.tf32 = job.devices.tf32,
                        .measure = job.devices.measure_products,
                        .strict = job.checkpoints.strict_identity});
  if (!job.devices.measure_products)
    return;
  std::set<std::string> known;
  std::vector<product_choice> given;
  for (const auto& path : choice_files(job))
    for (const auto& choice : load_product_choices(path))
      if (known.insert(choice.product).second)
        given.push_back(choice);
  library.give_choices(given, kernels::choices_of::others);
}

std::shared_ptr<const held_devices> hold_devices(const training_job& job,
                                                 const std::vector<int>& ranks,
                                                 const std::string& run,
                                                 bool started_again) {
  if (job.backend != kernels::backend::cuda || !job.devices.numbers.empty())
    return nullptr;
  const auto all = devices_of(job);
  if (all.empty())
    throw input_error(
        "this host has no device that can be used; see `troupe doctor`, or use other hosts");
  const auto out = std::make_shared<held_devices>();
  const auto first = std::size_t(ranks.front());
  const auto wanted = std::min(ranks.size(), all.size());
  auto chosen = choose_devices(all, wanted, first, [&](int d) {
    auto claim = hold_device(run, open_devices().facts(d).id);
    if (claim != nullptr)
      out->claims.push_back(std::move(claim));
    return claim != nullptr;
  });
  for (std::size_t i = 0; i < all.size() && chosen.size() < wanted; ++i) {
    const int d = all[(first + i) % all.size()];
    if (std::find(chosen.begin(), chosen.end(), d) != chosen.end())
      continue;
    const auto what = fmt::format(
        "device {} ({}) belongs to another process of this run on this "
        "host",
        d,
        open_devices().facts(d).name);
    if (!started_again)
      throw input_error(
          "{}: give fewer `layout.processes`, or more devices (CUDA_VISIBLE_DEVICES), or name the "
          "devices to share in `devices.numbers`",
          what);
    log_warning(
        "{}: both are slower, its memory may not suffice, and NCCL refuses a group with two ranks "
        "on it; start a node on another host",
        what);
    chosen.push_back(d);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    out->of[ranks[i]] = chosen[i % chosen.size()];
  return out;
}

std::map<std::string, std::string> products_of(const training_job& job) {
  std::map<std::string, std::string> out;
  if (job.backend == kernels::backend::cuda && job.devices.measure_products)
    for (const auto& choice : kernels::open_cuda().choices())
      out[choice.product] = choice.algorithm;
  return out;
}

namespace {

/// Reports that neither the checkpoint nor the file beside it lists the algorithms of its products.
void tell_unknown_products(const training_job& job, const fs::path& folder) {
  const auto what = fmt::format(
      "the algorithms of the matrix products of '{}' are unknown: the checkpoint lists none, as in "
      "older builds, and '{}' is missing",
      folder.string(),
      beside(job.checkpoints.load).string());
  if (job.checkpoints.strict_identity)
    throw input_error(
        "{}; `checkpoints.strict_identity` requires equal bits: put that file back, or leave the "
        "flag out",
        what);
  log_warning("{}: later states may differ from those of that run", what);
}

/// Reports that the choices in `where` are from a build that multiplied by the slope of GELU in a
/// separate kernel.
void tell_other_gradients(const training_job& job, const fs::path& where) {
  const auto what = fmt::format(
      "the products in '{}' are of an older build, which multiplied by the slope of GELU in a "
      "separate kernel; this build does so within the product of the gradient",
      where.string());
  if (job.checkpoints.strict_identity)
    throw input_error("{}; `checkpoints.strict_identity` requires equal bits: leave the flag out",
                      what);
  log_warning("{}: later states may differ from those of that run", what);
}

}  // namespace

void take_products(const training_job& job,
                   const fs::path& folder,
                   const std::map<std::string, std::string>& products) {
  if (job.backend != kernels::backend::cuda || !job.devices.measure_products)
    return;
  const auto file = beside(job.checkpoints.load);
  const auto others = load_product_choices(file);
  if (products.empty()) {
    if (!fs::exists(file))
      tell_unknown_products(job, folder);
    else if (lack_gelu_gradient(others))
      tell_other_gradients(job, file);
    kernels::open_cuda().give_choices(others, kernels::choices_of::this_run);
    return;
  }
  std::vector<product_choice> given;
  for (const auto& [product, algorithm] : products)
    given.push_back({.product = product, .algorithm = algorithm});
  if (lack_gelu_gradient(given))
    tell_other_gradients(job, folder);
  const auto changed = std::count_if(others.begin(), others.end(), [&](const auto& choice) {
    const auto found = products.find(choice.product);
    return found != products.end() && found->second != choice.algorithm;
  });
  if (changed > 0)
    log_warning(
        "'{}' names other algorithms for {} than the checkpoint '{}': using those of the "
        "checkpoint",
        file.string(),
        counted(std::int64_t(changed), "product"),
        folder.string());
  kernels::open_cuda().give_choices(given, kernels::choices_of::this_run);
}

namespace {

/// One line for all: another version of the library may refuse every choice of a file. `theirs`:
/// the runs that the bits may differ from.
void tell_replaced(std::vector<kernels::replaced_choice> news,
                   kernels::choices_of whose,
                   const char* theirs) {
  std::erase_if(news, [&](const auto& x) { return x.whose != whose; });
  if (news.empty())
    return;
  const auto& [before, of, why] = news.front();
  const auto others = std::int64_t(news.size()) - 1;
  log_warning(
      "the earlier algorithm of the matrix product '{}' cannot be used: {}; {}, and later states "
      "may differ from those of {}",
      before.product,
      why,
      others == 0
          ? "another one replaces it"
          : fmt::format("also refused: {}; all were replaced", counted(others, "other algorithm")),
      theirs);
}

/// Logs refused choices and the time of measuring. Once each: the process may run several jobs.
void tell_products(const kernels::product_report& report) {
  static std::mutex mutex;
  static std::size_t replaced = 0;
  static int measured = 0;
  static double seconds = 0;
  const std::lock_guard lock(mutex);
  const std::vector news(
      report.replaced.begin() + std::ptrdiff_t(std::exchange(replaced, report.replaced.size())),
      report.replaced.end());
  tell_replaced(news, kernels::choices_of::this_run, "the resumed run");
  tell_replaced(news, kernels::choices_of::others, "runs that used it");
  if (report.measured > measured)
    log_info("{} measured in {:.1f} s, to choose their algorithms",
             counted(std::int64_t(report.measured - std::exchange(measured, report.measured)),
                     "matrix product"),
             report.seconds - std::exchange(seconds, report.seconds));
}

/// The choices that replaced refused ones.
std::vector<product_choice> in_place_of(const std::vector<kernels::replaced_choice>& replaced,
                                        const std::vector<product_choice>& all) {
  std::vector<product_choice> out;
  for (const auto& choice : all)
    if (std::any_of(replaced.begin(), replaced.end(), [&](const auto& x) {
          return x.before.product == choice.product;
        }))
      out.push_back(choice);
  return out;
}

}  // namespace

void keep_product_choices(const training_job& job) {
  if (job.backend != kernels::backend::cuda)
    return;
  const auto report = kernels::open_cuda().report_products();
  tell_products(report);
  if (!job.devices.measure_products)
    return;
  static std::mutex mutex;
  static std::map<fs::path, std::size_t> kept;  // by file: the process may run several jobs
  static bool told = false;
  const std::lock_guard lock(mutex);
  const auto all = kernels::open_cuda().choices();
  for (const auto& path : choice_files(job)) {
    if (path == beside(job.checkpoints.load) && job.checkpoints.load != job.checkpoints.save)
      continue;  // belongs to another run
    if (std::exchange(kept[path], all.size()) == all.size())
      continue;
    try {
      add_product_choices(
          path, all, path == beside(job.checkpoints.save) ? standing::used : standing::there);
      add_product_choices(path, in_place_of(report.replaced, all), standing::used);
    } catch (const error& failure) {
      if (!std::exchange(told, true))
        log_warning("{}; a later run will measure its matrix products again and may get other bits",
                    failure.what());
    }
  }
}

namespace {

/// Logs once the reason that a function of the plug-in returns, and its consequence.
void tell_once(std::atomic<bool>& told, const char* function, const char* then) {
  if (told)
    return;
  const std::string reason = kernels::plugin::open("cuda").function<const char*()>(function)();
  if (!reason.empty() && !told.exchange(true))
    log_warning("{}; {}", reason, then);
}

}  // namespace

void tell_attention(const training_job& job) {
  static std::atomic<bool> missing = false, fallback = false, scalar = false;
  if (job.backend != kernels::backend::cuda)
    return;
  tell_once(
      missing,
      "troupe_cuda_attention_missing",
      "attention uses troupe's own kernels, which are slower: run `troupe doctor` for a remedy");
  tell_once(fallback,
            "troupe_cuda_attention_fallback",
            "cuDNN's usual kernel computes, with the same bits each time");
  tell_once(scalar,
            "troupe_cuda_attention_scalar",
            "TROUPE_ATTENTION=cudnn,own computes it by tensor-core kernels, with other bits");
}

double matrix_rate_of_devices(const training_job& job) {
  const bool narrow = job.training.precision != dtype::f32;
  if (job.layout.processes > 1 && job.devices.numbers.empty())
    return job.layout.world * measured_device_rate(devices_of(job).front(), narrow);
  std::vector<int> ranks(std::size_t(job.layout.world));
  std::iota(ranks.begin(), ranks.end(), 0);
  double sum = 0;
  for (const int d : used_devices(job, ranks))
    sum += measured_device_rate(d, narrow);
  return sum;
}

std::string device_identity(const training_job& job) {
  std::string out;
  for (const int d : devices_of(job)) {
    const auto name = open_devices().facts(d).name;
    if (out.find(name) == std::string::npos)
      out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

std::string library_identity() {
  return kernels::open_cuda().libraries();
}

}  // namespace troupe::runtime
