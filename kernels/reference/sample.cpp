#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace troupe::kernels::reference {

template <class T>
void run(const sample_token<T>& op) {
  std::vector<std::int32_t> ranked(static_cast<std::size_t>(op.vocabulary));
  std::iota(ranked.begin(), ranked.end(), 0);
  std::stable_sort(ranked.begin(), ranked.end(), [&op](std::int32_t a, std::int32_t b) {
    return op.logits[a] > op.logits[b];  // stable: equal logits rank by token
  });
  if (op.top_k > 0 && op.top_k < op.vocabulary)
    ranked.resize(std::size_t(op.top_k));

  const double largest = op.logits[ranked.front()];
  std::vector<double> probability;
  double sum = 0;
  for (const auto token : ranked) {
    probability.push_back(std::exp((double(op.logits[token]) - largest) / double(op.temperature)));
    sum += probability.back();
  }

  std::size_t kept = ranked.size();
  if (op.top_p < 1) {
    double cumulative = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      cumulative += probability[i];
      if (cumulative > double(op.top_p) * sum)
        kept = i + 1;
    }
  }
  while (kept > 1 && probability[kept - 1] < double(op.min_p) * probability.front())
    --kept;
  sum = std::accumulate(probability.begin(), probability.begin() + std::ptrdiff_t(kept), 0.0);

  double cumulative = 0;
  std::size_t chosen = 0;
  while (chosen + 1 < kept && (cumulative += probability[chosen]) <= op.uniform * sum)
    ++chosen;
  *op.token = ranked[chosen];
}

template void run(const sample_token<float>&);
template void run(const sample_token<double>&);

}  // namespace troupe::kernels::reference
