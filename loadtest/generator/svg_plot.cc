#include "loadtest/generator/svg_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace stoker::loadtest {
namespace {

constexpr double kWidth = 720, kHeight = 340;
constexpr double kLeft = 70, kRight = 16, kTop = 34, kBottom = 48;
constexpr double kLegendRow = 18;

class Scale {
 public:
  // Maps axis.min to `from` and axis.max to `to`.
  Scale(const PlotAxis& axis, double from, double to)
      : axis_(axis), from_(from), to_(to) {}

  double operator()(double value) const {
    const double share = (Place(value) - Place(axis_.min)) /
                         (Place(axis_.max) - Place(axis_.min));
    return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
  }

 private:
  double Place(double value) const {
    return axis_.log ? std::log(std::max(value, axis_.min)) : value;
  }

  const PlotAxis& axis_;
  const double from_, to_;
};

std::string Text(double x, double y, const char* css, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n",
                         x, y, css, Escape(text));
}

std::string Line(double x1, double y1, double x2, double y2, const char* css) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n",
      x1, y1, x2, y2, css);
}

std::vector<std::pair<double, std::string>> Ticks(const PlotAxis& axis) {
  if (!axis.ticks.empty()) return axis.ticks;
  if (!axis.log) return NiceTicks(axis.min, axis.max, 6);
  // 1, 2, 5 of each decade; of many decades only their beginnings.
  std::vector<std::pair<double, std::string>> ticks;
  const double decades = std::log10(axis.max / axis.min);
  for (double decade = std::pow(10, std::floor(std::log10(axis.min)));
       decade <= axis.max; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = decade * digit;
      if (digit > 1 && decades > 3) continue;
      if (value >= axis.min * 0.999 && value <= axis.max * 1.001)
        ticks.emplace_back(value, absl::StrFormat("%g", value));
    }
  }
  return ticks;
}

std::string Axes(const Plot& plot, const Scale& x, const Scale& y) {
  std::string svg;
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (const auto& [value, label] : Ticks(plot.x)) {
    absl::StrAppend(&svg, Line(x(value), kTop, x(value), bottom, "grid"),
                    Text(x(value), bottom + 16, "tick", label));
  }
  for (const auto& [value, label] : Ticks(plot.y)) {
    absl::StrAppend(&svg, Line(kLeft, y(value), right, y(value), "grid"),
                    Text(kLeft - 6, y(value) + 4, "tick end", label));
  }
  absl::StrAppend(
      &svg, Line(kLeft, bottom, right, bottom, "axis"),
      Line(kLeft, kTop, kLeft, bottom, "axis"),
      Text((kLeft + right) / 2, kHeight - 10, "title", plot.x.title),
      absl::StrFormat("<text transform=\"translate(14 %.1f) rotate(-90)\" "
                      "class=\"title\">%s</text>\n",
                      (kTop + bottom) / 2, Escape(plot.y.title)),
      Text(kLeft, 18, "head", plot.title));
  return svg;
}

std::string Curve(const PlotSeries& series, size_t index, const Scale& x,
                  const Scale& y) {
  std::string points;
  for (const auto& [px, py] : series.points)
    absl::StrAppendFormat(&points, "%.1f,%.1f ", x(px), y(py));
  return absl::StrFormat("<polyline points=\"%s\" class=\"curve s%d\"/>\n",
                         points, index % 8);
}

std::string Bars(const PlotSeries& series, size_t index, const Scale& x,
                 const Scale& y) {
  std::string svg;
  for (size_t i = 0; i + 1 < series.points.size(); ++i) {
    const auto& [from, height] = series.points[i];
    const double left = x(from), top = y(height);
    const double width = std::max(0.5, x(series.points[i + 1].first) - left);
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                          "height=\"%.1f\" class=\"bar s%d\"/>\n",
                          left, top, width, kHeight - kBottom - top, index % 8);
  }
  return svg;
}

// Below the plot, in rows of two.
std::string Legend(const Plot& plot) {
  std::string svg;
  constexpr double kColumn = (kWidth - kLeft) / 2;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const double left = kLeft + static_cast<double>(i % 2) * kColumn;
    const double top =
        kHeight + kLegendRow * (0.6 + std::floor(static_cast<double>(i) / 2));
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" "
                          "height=\"4\" class=\"key s%d\"/>\n",
                          left, top - 6, i % 8);
    absl::StrAppend(&svg, Text(left + 20, top, "legend", plot.series[i].name));
  }
  return svg;
}

}  // namespace

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"},
                                    {"<", "&lt;"},
                                    {">", "&gt;"},
                                    {"\"", "&quot;"},
                                    {"'", "&#39;"}});
}

std::vector<std::pair<double, std::string>> NiceTicks(double min, double max,
                                                      int count) {
  std::vector<std::pair<double, std::string>> ticks;
  if (!(max > min) || count < 1) return ticks;
  const double rough = (max - min) / count;
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * decade;
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * decade >= rough) {
      step = digit * decade;
      break;
    }
  }
  for (double i = std::ceil(min / step - 1e-9); i * step <= max + step * 1e-9;
       ++i) {
    const double value = i * step + 0.0;  // -0 would show its sign
    ticks.emplace_back(value, absl::StrFormat("%g", value));
  }
  return ticks;
}

std::string PlotSvg(const Plot& plot) {
  const Scale x(plot.x, kLeft, kWidth - kRight);
  const Scale y(plot.y, kHeight - kBottom, kTop);
  const bool legend = plot.series.size() > 1;
  const double height =
      kHeight +
      (legend
           ? kLegendRow *
                 (std::ceil(static_cast<double>(plot.series.size()) / 2) + 0.4)
           : 0);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" "
      "role=\"img\">\n<title>%s</title>\n",
      kWidth, height, Escape(plot.title));
  absl::StrAppend(&svg, Axes(plot, x, y));
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    absl::StrAppend(
        &svg, series.bars ? Bars(series, i, x, y) : Curve(series, i, x, y));
  }
  if (legend) absl::StrAppend(&svg, Legend(plot));
  return svg + "</svg>\n";
}

}  // namespace stoker::loadtest
