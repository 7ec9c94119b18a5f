#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/masked_loss.hpp"
#include "runtime/autograd/parts.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

template <class T>
struct cross_entropy_node final : node {
  tensor logits;  ///< (R, V)
  tensor lse;     ///< (R), of the whole vocabulary
  tensor targets, mask;
  std::shared_ptr<gradient_slot> dlogits;
  tensor sums;  ///< total, tokens
  std::int64_t R, V, vocabulary, first;
  loss_average average;

  void input_gradients(tape& tape) override {
    auto dloss = tensor::empty<float>(tape.stream(), {R});
    kernels::masked_loss_backward<float> mean{
        dloss.data<float>(), mask.data<float>(), sums.data<double>() + 1, double(average.scale), R};
    if (average.per_row) {
      mean.tokens = nullptr;
      mean.scale = average.weight(0, R);
    }
    tape.stream().run(mean);
    auto part = std::move(logits);  // its place is taken by its gradient
    tape.stream().run(kernels::cross_entropy_backward<T>{part.data<T>(),
                                                         part.data<T>(),
                                                         lse.data<float>(),
                                                         targets.data<std::int32_t>(),
                                                         dloss.data<float>(),
                                                         R,
                                                         V,
                                                         vocabulary,
                                                         std::int32_t(first)});
    tape.add(*dlogits, std::move(part));
  }
};

/// Puts the parts of all ranks together: of each rank lse and target logit, (2, R).
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
  auto loss = tensor::empty<float>(tape.stream(), {R});
  auto lse = tensor::empty<float>(tape.stream(), {R});
  kernels::cross_entropy_forward<T> forward{.loss = loss.data<float>(),
                                            .lse = lse.data<float>(),
                                            .logits = logits.data.data<T>(),
                                            .target = targets.data<std::int32_t>(),
                                            .R = R,
                                            .V = V,
                                            .vocabulary = vocabulary,
                                            .first = std::int32_t(first)};
  if (tape.group_size() == 1) {
    tape.stream().run(forward);
  } else {
    auto part = tensor::empty<float>(tape.stream(), {2, R});
    forward.loss = nullptr;
    forward.lse = part.data<float>();
    forward.target_logit = part.data<float>() + R;
    tape.stream().run(forward);
    merge(tape, part, loss, lse);
  }
  auto sums = tensor::empty<double>(tape.stream(), {2});
  auto* const at = sums.data<double>();
  tape.stream().run(
      kernels::masked_loss_forward<float>{at, at + 1, loss.data<float>(), mask.data<float>(), R});
  if (tape.recording()) {
    auto n = std::make_unique<cross_entropy_node<T>>();
    n->logits = std::move(logits.data);
    n->lse = std::move(lse);
    n->targets = targets;
    n->mask = mask;
    n->dlogits = std::move(logits.gradient);
    n->R = R;
    n->V = V;
    n->vocabulary = vocabulary;
    n->first = first;
    n->sums = sums;
    n->average = average;
    tape.record(std::move(n));
  }
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
