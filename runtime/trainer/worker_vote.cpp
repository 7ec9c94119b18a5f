// The votes of a worker: losses, norms, and the digest of what replicas have in common.

#include "runtime/optim/fingerprints.hpp"
#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

void worker::losses(reads& by, std::vector<loss_part>& to) const {
  using parts = std::map<decltype(loss_part().order()), loss_part>;
  const auto found = std::make_shared<parts>();
  for (const auto& [key, all] : losses_)  // ascending: replica, chunk, micro-batch
    for (const auto& [place, x] : all) {
      const auto name = std::ranges::find(loss_names_, place.name, &loss_spec::name);
      ensure(name != loss_names_.end(), "WORKER-15: a pass writes the losses that its units name");
      const auto copy = int(value(homes_.at(key.chunk)->copy));
      loss_part part{.number = copy * settings_.replicas + key.replica,
                     .loss = int(name - loss_names_.begin()),
                     .unit = place.unit};
      auto& sum = found->emplace(part.order(), part).first->second;
      by.add<double>(x, [found, &sum](std::span<const double> sums) {
        sum.total += sums[0];
        sum.tokens += sums[1];
      });
    }
  by.then([found, &to] {
    for (const auto& [order, part] : *found)
      to.push_back(part);
  });
}

std::vector<loss_part> worker::losses() const {
  return read<std::vector<loss_part>>([&](reads& by, auto& to) { losses(by, to); });
}

loss_value worker::loss(int replica) const {
  loss_value out;
  for (const auto& x : losses())
    if (x.number == replica && x.loss == 0)
      out += {x.total, x.tokens};
  return out;
}

void worker::norms(reads& by, square_norms& to) const {
  read_votes(by, &to, nullptr);
}

void worker::vote_digests(reads& by, by_view<digest>& to) const {
  if (settings_.distributed_optimizer)
    read_values(by, to);
  else
    read_votes(by, nullptr, &to);
}

void worker::norms_and_digests(reads& by, square_norms& norms, by_view<digest>& to) const {
  read_votes(by, &norms, settings_.distributed_optimizer ? nullptr : &to);
  if (settings_.distributed_optimizer)
    read_values(by, to);
}

void worker::read_votes(reads& by, square_norms* norms, by_view<digest>* of_gradients) const {
  const auto parts = std::make_shared<std::vector<std::vector<digest>>>(homes_.size());
  std::size_t next = 0;
  for (const auto& [id, home] : homes_) {
    auto* const digests = of_gradients != nullptr ? &(*parts)[next++] : nullptr;
    auto* const own = home->answers() ? norms : nullptr;
    if (digests != nullptr || own != nullptr)
      home->optimizer.gradients().read(by, own, digests);
  }
  if (of_gradients != nullptr)
    by.then([this, parts, of_gradients] {
      by_view<digester> all;
      auto of_chunk = parts->begin();
      for (const auto& [id, home] : homes_) {
        auto found = (of_chunk++)->begin();
        for (const auto& x : home->optimizer.parts())
          if (!x.frozen)
            all[home->layers_of(x.range.entry)].add(*found++);
      }
      for (const auto layers : axis_views)
        (*of_gradients)[layers] = all[layers].result();
    });
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

void worker::zero_gradients(reads& by, by_view<std::int64_t>& to) const {
  for (const auto& [id, home] : homes_)
    if (home->answers())
      home->optimizer.zero_gradients(by, to);
}

void worker::square_norm_of_parameters(reads& by, by_view<exact_sum>& to) const {
  for (const auto& [id, home] : homes_)
    if (home->answers())
      home->optimizer.square_norm_of_weights(by, to);
}

// Digest of all values that the step used.
void worker::read_values(reads& by, by_view<digest>& to) const {
  std::vector<fingerprint_piece> pieces;
  std::vector<axis_view> layers;  // of each piece
  const auto* key = vote_keys_.data<std::uint64_t>();
  for (const auto& [id, home] : homes_) {
    const auto& store = std::as_const(*home->store);
    for (const auto& x : store.stretches_of_values()) {
      if (store.is_frozen(x))
        continue;
      pieces.push_back({store.values(x.first), words_of(store.type_of(x), x.size), key});
      key += kernels::grains_in(pieces.back().n, settings_.grain);
      layers.push_back(home->layers_of(x.first));
    }
  }
  read_fingerprints(by,
                    pieces,
                    settings_.grain,
                    [&to, layers = std::move(layers)](const std::vector<digest>& found) {
                      by_view<digester> all;
                      for (std::size_t i = 0; i < found.size(); ++i)
                        all[layers[i]].add(found[i]);
                      for (const auto x : axis_views)
                        to[x] = all[x].result();
                    });
}

by_view<digest> worker::vote_digests() const {
  return read<by_view<digest>>([&](reads& by, by_view<digest>& to) { vote_digests(by, to); });
}

}  // namespace troupe::runtime
