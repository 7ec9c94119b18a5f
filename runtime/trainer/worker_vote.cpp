// What a worker votes with: losses, norms, and the digest of what replicas hold alike.

#include "runtime/optim/fingerprints.hpp"
#include "runtime/trainer/worker.hpp"

#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

void worker::loss(reads& by, int replica, loss_value& to) const {
  for (const auto& [key, x] : losses_)  // ascending: replica, chunk, micro-batch
    if (key.replica == replica)
      by.add<double>(x, [&to](std::span<const double> sums) {
        to.total += sums[0];
        to.tokens += sums[1];
      });
}

loss_value worker::loss(int replica) const {
  return read<loss_value>([&](reads& by, loss_value& to) { loss(by, replica, to); });
}

void worker::norms(reads& by, square_norms& to) const {
  for (const auto& [id, home] : homes_)
    if (home->answers())
      home->optimizer.norms(by, to);
}

square_norms worker::norms() const {
  return read<square_norms>([&](reads& by, square_norms& to) { norms(by, to); });
}

worker::finding worker::first_nonfinite(const square_norms& norms) const {
  finding out;
  for (const auto& [id, home] : homes_) {  // ascending: the backward pass begins at the last
    int number = 0;
    for (const auto& e : home->store->entries()) {
      const auto found = norms.find(e.spec.name);
      if (home->answers() && found != norms.end() && !found->second.is_finite())
        out = {e.spec.name, int(value(id)), number};
      ++number;
    }
  }
  return out;
}

void worker::zero_gradients(reads& by, std::int64_t& to) const {
  for (const auto& [id, home] : homes_)
    if (home->answers())
      home->optimizer.zero_gradients(by, to);
}

void worker::square_norm_of_parameters(reads& by, exact_sum& to) const {
  for (const auto& [id, home] : homes_)
    if (home->answers())
      home->optimizer.square_norm_of_weights(by, to);
}

void worker::vote_digest(reads& by, digest& to) const {
  std::vector<fingerprint_piece> pieces;
  const auto* key = vote_keys_.data<std::uint64_t>();
  for (const auto& [id, home] : homes_)
    for (const auto& x : home->voted()) {
      pieces.push_back({x.data, words_of(x.type, x.size), key});
      key += kernels::grains_in(pieces.back().n, settings_.grain);
    }
  read_fingerprints(by, pieces, settings_.grain, [&to](const std::vector<digest>& found) {
    digester d;
    for (const auto& x : found)
      d.add(x);
    to = d.result();
  });
}

std::vector<worker::hosted::array> worker::hosted::voted_sizes() const {
  std::vector<array> out;
  if (state_sharded)
    for (const auto& x : store->stretches_of_values())
      out.push_back({nullptr, store->type(), x.size});
  else
    for (const auto& x : store->stretches_of_gradients())
      out.push_back({nullptr, dtype::f32, x.size});
  return out;
}

std::vector<worker::hosted::array> worker::hosted::voted() const {
  auto out = voted_sizes();
  const auto& all = std::as_const(*store);
  std::size_t next = 0;
  if (state_sharded)
    for (const auto& x : all.stretches_of_values())
      out[next++].data = all.values(x.first);
  else
    for (const auto& x : all.stretches_of_gradients()) {
      out[next++].data = all.gradients(0, x.first);
      for (int e = x.first + 1; e < x.end; ++e)
        all.gradients(0, e);  // zero where no pass came
    }
  return out;
}

digest worker::vote_digest() const {
  return read<digest>([&](reads& by, digest& to) { vote_digest(by, to); });
}

}  // namespace troupe::runtime
