// Plots as SVG text, for a report that opens without a network. Colours and
// fonts come from the page's style sheet: series i has class "s<i>".
//
// Pure functions of their arguments; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stoker::loadtest {

// One axis: values are mapped to the plot linearly or by their logarithm.
struct PlotAxis {
  std::string title;
  double min = 0, max = 1;
  bool log = false;  // min is above 0 then
  // Where a line and its label go; empty: chosen.
  std::vector<std::pair<double, std::string>> ticks;
};

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y
  bool bars = false;  // a bar from each point to the next, the last one's end
};

struct Plot {
  std::string title;
  PlotAxis x, y;
  std::vector<PlotSeries> series;
};

// An <svg> element with title, axes, series and a legend when there is more
// than one series. Points outside of the axes are drawn at their ends.
std::string PlotSvg(const Plot& plot);

// Ticks at 1, 2 and 5 times powers of ten, about `count` of them within
// [min, max].
std::vector<std::pair<double, std::string>> NiceTicks(double min, double max,
                                                      int count);

// The text with &, <, > and quotes made safe for HTML and SVG.
std::string Escape(const std::string& text);

}  // namespace stoker::loadtest
