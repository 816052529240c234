// Theme of the docs site: the default theme, our colours, and the landing page.
import DefaultTheme from 'vitepress/theme-without-fonts'
import Landing from './Landing.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => app.component('Landing', Landing),
}
