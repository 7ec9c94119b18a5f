#include "runtime/data/sampler.hpp"

#include "runtime/core/error.hpp"

#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace troupe::runtime {

std::string_view to_string(sampling x) {
  switch (x) {
    case sampling::single:
      return "single";
    case sampling::cyclic:
      return "cyclic";
    case sampling::cyclic_unsharded:
      return "cyclic, not sharded";
  }
  throw broken_promise("SAMPLER-1: samples are taken in one of three ways");
}

std::vector<std::uint32_t> torch_permutation(std::uint64_t n, std::uint32_t seed) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() / 20;
  if (n >= most)
    throw input_error(
        "cannot shuffle {} samples like PyTorch, the maximum is {}: take them in the order of the "
        "data set, which is also shuffled",
        n,
        most - 1);
  std::vector<std::uint32_t> out(n);
  std::iota(out.begin(), out.end(), 0U);
  std::mt19937 random(seed);
  for (std::uint64_t i = 0; i + 1 < n; ++i)
    std::swap(out[i], out[i + random() % (n - i)]);
  return out;
}

sampler::sampler(sampling how, batch_layout layout, std::uint64_t samples)
    : how_(how), layout_(layout), at_once_(layout.micro_batch_size * layout.data_parallel) {
  if (how == sampling::single)
    return;
  const auto B = layout.micro_batch_size;
  an_epoch_ = samples - samples % at_once_;
  bucket_ = how == sampling::cyclic ? samples / at_once_ * B : samples / B * B;
  if (an_epoch_ == 0)
    throw input_error(
        "cannot read {} samples in epochs: one micro-batch on every replica takes {}; give more "
        "data",
        samples,
        at_once_);
  of_epoch(0);
}

sampler::order sampler::of_epoch(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (latest_.all && latest_.number == epoch)
    return latest_.all;
  std::swap(latest_, before_);
  if (!latest_.all || latest_.number != epoch)
    latest_ = {epoch,
               std::make_shared<const std::vector<std::uint32_t>>(
                   torch_permutation(bucket_, static_cast<std::uint32_t>(epoch)))};
  return latest_.all;
}

std::uint64_t sampler::sample(const microbatch_address& at, std::uint64_t row) const {
  if (how_ == sampling::single)
    return sample_position(layout_, at.consumed, at.microbatch, at.replica, row);
  const auto before = at.consumed + at.microbatch * at_once_;
  const auto epoch = before / an_epoch_, within = before % an_epoch_;
  if (within % at_once_ != 0)
    throw input_error(
        "cannot resume after {} samples in epochs of {}: they are taken {} at a time, one "
        "micro-batch on every replica; resume with the previous batch sizes and layout",
        before,
        an_epoch_,
        at_once_);
  const auto order = of_epoch(epoch);
  const auto& shuffled = *order;
  if (how_ == sampling::cyclic)
    return at.replica * bucket_ + shuffled[within / layout_.data_parallel + row];
  return shuffled[within + row * layout_.data_parallel + at.replica];
}

}  // namespace troupe::runtime
