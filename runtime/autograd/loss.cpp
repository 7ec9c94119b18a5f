#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/masked_loss.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Combines the parts of all ranks; `part` is (2, R): this rank's lse and target logit.
void merge(tape& tape, const tensor& part, tensor& loss, tensor& lse) {
  const auto R = loss.size();
  const auto all = tensor::empty<float>(tape.stream(), {tape.group_size(), 2, R});
  const auto ends = equal_ends(std::int64_t(all.bytes()), tape.group_size());
  tape.group(axis::tensor)
      .all_gather(tape.stream(), part.raw(), const_cast<std::byte*>(all.raw()), ends);
  std::vector<const float*> part_lse, part_logit;
  for (int r = 0; r < tape.group_size(); ++r) {
    part_lse.push_back(all.data<float>() + 2 * r * R);
    part_logit.push_back(all.data<float>() + (2 * r + 1) * R);
  }
  tape.stream().run(kernels::cross_entropy_merge<float>{loss.data<float>(),
                                                        lse.data<float>(),
                                                        part_lse.data(),
                                                        part_logit.data(),
                                                        tape.group_size(),
                                                        R});
}

/// This rank's columns of the vocabulary, and operations on them.
template <class T>
struct own_columns {
  tensor logits;  ///< (R, V)
  const tensor& targets;
  std::int64_t V, R, first, vocabulary;

  /// Loss and lse (R) over the whole vocabulary.
  void forward(tape& tape, tensor& loss, tensor& lse) const {
    kernels::cross_entropy_forward<T> op{.loss = loss.data<float>(),
                                         .lse = lse.data<float>(),
                                         .logits = logits.data<T>(),
                                         .target = targets.data<std::int32_t>(),
                                         .R = R,
                                         .V = V,
                                         .vocabulary = vocabulary,
                                         .first = std::int32_t(first)};
    if (tape.group_size() == 1) {
      tape.stream().run(op);
      return;
    }
    auto part = tensor::empty<float>(tape.stream(), {2, R});
    op.loss = nullptr;
    op.lse = part.data<float>();
    op.target_logit = part.data<float>() + R;
    tape.stream().run(op);
    merge(tape, part, loss, lse);
  }

  /// Forward and backward pass; `gradient` may be the logits. With several ranks the gradient needs
  /// a sum over all ranks. By then the first rows have left the caches, and blocks of rows that fit
  /// them would need one collective each. So the logits are read twice there.
  void both(tape& tape, const tensor& dloss, tensor& loss, tensor& lse, tensor& gradient) const {
    if (tape.group_size() == 1) {
      tape.stream().run(
          kernels::cross_entropy_both_passes<T>{.loss = loss.data<float>(),
                                                .lse = lse.data<float>(),
                                                .dlogits = gradient.data<T>(),
                                                .logits = logits.data<T>(),
                                                .target = targets.data<std::int32_t>(),
                                                .dloss = dloss.data<float>(),
                                                .R = R,
                                                .V = V,
                                                .vocabulary = vocabulary});
      return;
    }
    forward(tape, loss, lse);
    tape.stream().run(kernels::cross_entropy_backward<T>{.dlogits = gradient.data<T>(),
                                                         .logits = logits.data<T>(),
                                                         .lse = lse.data<float>(),
                                                         .target = targets.data<std::int32_t>(),
                                                         .dloss = dloss.data<float>(),
                                                         .R = R,
                                                         .V = V,
                                                         .vocabulary = vocabulary,
                                                         .first = std::int32_t(first)});
  }
};

/// Gradient of each row's loss (R). It depends on the mask only, so it is ready before the logits
/// are read. Writes `tokens` if the average divides by them.
tensor gradients_of_rows(tape& tape, const tensor& mask, double* tokens, loss_average average) {
  const auto R = mask.size();
  auto out = tensor::empty<float>(tape.stream(), {R});
  kernels::masked_loss_backward<float> mean{
      out.data<float>(), mask.data<float>(), tokens, double(average.scale), R};
  if (average.per_row) {
    mean.tokens = nullptr;
    mean.scale = average.weight(0, R);
  } else {
    tape.stream().run(kernels::masked_loss_forward<float>{
        .total = nullptr, .tokens = tokens, .loss = nullptr, .mask = mask.data<float>(), .R = R});
  }
  tape.stream().run(mean);
  return out;
}

template <class T>
tensor run(tape& tape,
           variable logits,
           const tensor& targets,
           const tensor& mask,
           std::int64_t all_words,
           loss_average average) {
  const std::int64_t V = channels_of(logits.data), R = logits.data.size() / V;
  const auto first = tape.rank() * V;
  const auto vocabulary = std::clamp<std::int64_t>(all_words - first, 0, V);
  const own_columns<T> own{std::move(logits.data), targets, V, R, first, vocabulary};
  auto& stream = tape.stream();
  auto loss = tensor::empty<float>(stream, {R}), lse = tensor::empty<float>(stream, {R});
  auto sums = tensor::empty<double>(stream, {2});
  double *const total = sums.data<double>(), *const tokens = total + 1;
  if (tape.recording()) {
    const auto dloss = gradients_of_rows(tape, mask, tokens, average);
    // Overwrites the logits if no other tensor shares their memory.
    auto gradient = own.logits.block().use_count() == 1
                        ? own.logits
                        : tensor::empty<T>(stream, own.logits.extents());
    own.both(tape, dloss, loss, lse, gradient);
    tape.record([gradient, to = std::move(logits.gradient)](troupe::runtime::tape& back) mutable {
      back.add(*to, std::move(gradient));
    });
  } else {
    own.forward(tape, loss, lse);
  }
  stream.run(kernels::masked_loss_forward<float>{.total = total,
                                                 .tokens = tokens,
                                                 .loss = loss.data<float>(),
                                                 .mask = mask.data<float>(),
                                                 .R = R});
  return sums;
}

}  // namespace

loss_value loss_of(const stream& stream, const tensor& sums) {
  const auto found = elements_of<double>(stream, sums);
  return {found[0], found[1]};
}

tensor loss_sums(stream& stream, const loss_value& x) {
  return uploaded<double>(stream, std::vector<double>{x.total, x.tokens}, {2});
}

tensor cross_entropy(tape& tape,
                     variable logits,
                     const tensor& targets,
                     const tensor& mask,
                     std::int64_t vocabulary,
                     loss_average average) {
  require_placement(logits, placement::feature_sharded, "cross_entropy");
  return with_element(tape.type(), [&]<class T>(T) {
    return run<T>(tape, std::move(logits), targets, mask, vocabulary, average);
  });
}

}  // namespace troupe::runtime
